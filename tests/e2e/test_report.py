"""The report in a real browser: it fits, asks no network and runs nothing, whatever it shows."""

import json
import subprocess
from pathlib import Path

from dflash_kit import paths

RECEIPTS = paths.ROOT / "docs" / "report" / "receipts"
VIEWS = ["desktop", "desktop-dark", "phone", "phone-dark", "print"]
# One word, as wide as no screen is, with all that could leave its place in a page.
EVIL = "x" * 300 + "\"'></title></style><script>alert(1)</script><img src=http://127.0.0.1:9/x>"


def screenshots(source: Path, out: Path) -> tuple[int, str]:
    command = [paths.ROOT / "scripts" / "screenshots", source, out, "--full"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr)[-2000:]


def test_report_of_a_fleet(tmp_path: Path) -> None:
    code, said = screenshots(RECEIPTS, tmp_path)
    assert code == 0, said
    assert sorted(file.stem for file in tmp_path.glob("*.png")) == VIEWS
    assert (tmp_path / "print.pdf").read_bytes().startswith(b"%PDF")


def test_report_of_a_receipt_that_attacks(tmp_path: Path) -> None:
    receipt = json.loads(sorted(RECEIPTS.rglob("*.json"))[0].read_text())
    for name in ("release", "profile", "point", "deployment", "image", "url"):
        receipt[name] = EVIL
    for name in ("name", "system", "driver"):
        receipt["host"][name] = EVIL
    receipt["host"]["gpus"] = [EVIL]
    for check in receipt["checks"]:
        check |= {"verdict": "FAIL", "measured": EVIL, "wanted": EVIL, "next_step": EVIL}
    receipt["verdict"] = "FAIL"
    file = tmp_path / "evil.json"
    file.write_text(json.dumps(receipt))
    code, said = screenshots(file, tmp_path / "out")
    assert code == 0, said


WRONG = {
    "<p>" + "x" * 300: "pixels wide in a window of 390: ['p: xxx",
    "<script>console.error('oh')</script>": "console: oh",
    "<script>alert(1)</script>": "a script ran",
    "<img src=http://127.0.0.1:9/x>": "asked for http://127.0.0.1:9/x",
    "<p style='color: #999; background: #fff'>pale": "contrast below 4.5: ['pale: 2.85']",
}


def test_the_browser_check_sees_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(
        "<!doctype html><meta name=viewport content='width=device-width'>" + "".join(WRONG)
    )
    code, told = screenshots(file, tmp_path / "out")
    assert code == 1, told
    assert [said for said in WRONG.values() if said not in told] == [], told
