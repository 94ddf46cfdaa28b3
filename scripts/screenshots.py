"""The report in a headless Chromium: it must fit a phone, ask no network and make no noise.

Writes a picture of each way to look at it: of one screen; with --full of the whole page, and its
PDF as printed.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page, sync_playwright

# name: width, height, scheme, medium
VIEWS = {
    "desktop": (1280, 900, "light", "screen"),
    "desktop-dark": (1280, 900, "dark", "screen"),
    "phone": (390, 844, "light", "screen"),
    "phone-dark": (390, 844, "dark", "screen"),
    "print": (794, 1123, "light", "print"),  # A4 at 96 pixels an inch
}
OVERFLOW = """() => [...document.querySelectorAll("body *")]
  .filter(each => Math.max(each.getBoundingClientRect().right, each.scrollWidth) > innerWidth + 0.5
    && getComputedStyle(each).position !== "absolute")
  .map(each => each.tagName.toLowerCase() + ": " + each.textContent.trim().slice(0, 40))"""
WIDTHS = "() => [document.scrollingElement.scrollWidth, innerWidth]"
# WCAG: the contrast of each element's own text with the nearest background behind it.
CONTRAST = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => (c /= 255) <= 0.04045 ? c / 12.92
    : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = each => {
    for (; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const own = each => [...each.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const poor = [];
  for (const each of document.querySelectorAll("body *")) {
    if (!own(each) || !each.getClientRects().length) continue;
    const style = getComputedStyle(each), svg = each instanceof SVGElement;
    const [a, b] = [light(parse(svg ? style.fill : style.color)), light(behind(each))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${each.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


def faults(page: Page, width: int) -> Iterator[str]:
    """What is wrong with a page as it is shown now."""
    wide, inner = page.evaluate(WIDTHS)
    if wide > inner:
        found = page.evaluate(OVERFLOW)[:3]
        yield f"{wide} pixels wide in a window of {width}: {found}"
    if poor := page.evaluate(CONTRAST):
        yield f"contrast below 4.5: {poor[:5]}"


def look(browser: Browser, file: Path, out: Path, name: str, full: bool) -> list[str]:
    """One way to look at the page: its picture, and each fault found as a line."""
    width, height, scheme, medium = VIEWS[name]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1.5
    )
    page, found = context.new_page(), []
    page.on("console", lambda message: found.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: found.append(f"script error: {error}"))
    page.on("dialog", lambda dialog: (found.append("a script ran"), dialog.dismiss()))
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(media=medium, color_scheme=scheme)
    page.goto(file.resolve().as_uri())
    found += [f"asked for {url}" for url in asked if url != file.resolve().as_uri()]
    found += faults(page, width)
    page.screenshot(path=out / f"{name}.png", full_page=full)
    if full and medium == "print":
        page.pdf(path=out / "print.pdf", format="A4", print_background=False)
    context.close()
    return [f"{name}: {line}" for line in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("receipts", type=Path, help="receipts, their folder, or a page (.html)")
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("--full", action="store_true", help="the whole page, not a screen of it")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch, sync_playwright() as playwright:
        page = asked.receipts
        if page.suffix != ".html":
            page = Path(scratch) / "report.html"
            kit = Path(sys.executable).with_name("dflash-kit")
            subprocess.run([kit, "report", asked.receipts, "--out", page], check=False)
            if not page.exists():
                return 2
        # As root Chromium needs its sandbox off; the page is ours and asks no network.
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        found = [
            line for name in VIEWS for line in look(browser, page, asked.out, name, asked.full)
        ]
        browser.close()
    print("\n".join(found) if found else f"{len(VIEWS)} views are well: {asked.out}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
