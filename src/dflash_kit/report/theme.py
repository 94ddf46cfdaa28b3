"""Colours of the plots: CSS variables on the page, a light palette in pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass

# matplotlib takes real colours alone: these stand for the page's variables until the SVG is made.
_INK, _MUTED, _GRID = "#000001", "#000002", "#000003"
_SERIES = ("#0000a1", "#0000a2", "#0000a3", "#0000a4", "#0000a5", "#0000a6")
_VARIABLES = {_INK: "--ink", _MUTED: "--muted", _GRID: "--grid"} | {
    colour: f"--s{number}" for number, colour in enumerate(_SERIES, 1)
}
_PLACEHOLDER = re.compile("|".join(_VARIABLES))
_FONT = re.compile(r"font: ((?:[\w.]+ )*?)([\d.]+)px [^;\"]*")
_STYLE_SHEET = re.compile(r"<style type=\"text/css\">.*?</style>", re.DOTALL)


@dataclass(frozen=True)
class Theme:
    """What a plot is drawn with."""

    ink: str
    muted: str
    grid: str
    series: tuple[str, ...]


ON_PAGE = Theme(_INK, _MUTED, _GRID, _SERIES)
# As :root of page.css has them.
IN_PICTURE = Theme(
    "#1b1f24",
    "#57606a",
    "#d8dee4",
    ("#0b62d6", "#b35900", "#1a7f4b", "#8f3fb8", "#b3261e", "#4d5b6a"),
)


def themed(svg: str, label: str) -> str:
    """matplotlib's SVG as a part of a page: its colours, fonts and width are the page's."""
    svg = svg[svg.index("<svg") :]
    svg = _STYLE_SHEET.sub("", svg)  # it would hold for the whole page
    svg = _PLACEHOLDER.sub(lambda found: f"var({_VARIABLES[found[0]]})", svg)
    svg = _FONT.sub(r"font-size: \2px", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
