"""The plots of a report: drawn once, for the page and for pictures."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dflash_kit.report.collect import Fleet, Run
from dflash_kit.report.theme import IN_PICTURE, ON_PAGE, Theme, themed
from dflash_kit.smoke.speed import Percentiles, Round, SpeedPoint

# Points of 1/72 inch; on the narrowest phones the page shows them one to one.
WIDTH, HEIGHT = 340, 240
MARKERS = ("o", "s", "^", "D", "v", "P")
LATENCIES: dict[str, tuple[str, Callable[[Round], Percentiles]]] = {
    "first-token": ("time to first token", lambda each: each.ttft_ms),
    "between-tokens": ("time between tokens", lambda each: each.itl_ms),
    "whole-request": ("time of a whole request", lambda each: each.e2e_ms),
}
# A line of its own for each; more would be a tangle, and the table beside it has them all.
MOST_LINES = 6
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and restyled
    "text.parse_math": False,  # a host may have a dollar in its name
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

Line = TypeVar("Line")
Draw = Callable[[Axes, Theme], None]


@dataclass(frozen=True)
class Plot:
    """One plot: `name` is its file's, `says` what a reader who cannot see it is told, `host` whose
    it is, empty for one of the whole fleet."""

    name: str
    title: str
    says: str
    draw: Draw
    host: str = ""

    def svg(self) -> Markup:
        """For the page."""
        buffer = io.BytesIO()
        with _settings(self.name):
            _figure(self, ON_PAGE).savefig(
                buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
            )
        label = str(escape(f"{self.title}: {self.says}"))
        return Markup(themed(buffer.getvalue().decode(), label))

    def png(self, folder: Path) -> Path:
        """As a picture in `folder`."""
        file = folder / f"{self.name}.png"
        with _settings(self.name):
            figure = _figure(self, IN_PICTURE)
            title = f"{short(self.host, 60)}\n{self.title}" if self.host else self.title
            figure.suptitle(title, color=IN_PICTURE.ink, fontsize=10)
            figure.savefig(file, dpi=200)
        return file


@contextmanager
def _settings(name: str) -> Iterator[None]:
    """matplotlib's settings while a plot is drawn."""
    # Ids in an SVG are made of the salt: two plots on one page must not share any.
    with rc_context(_RC | {"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs that matplotlib's font lacks; the page's has them
        yield


def _figure(plot: Plot, theme: Theme) -> Figure:
    figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72), layout="constrained")
    axes = figure.subplots()
    axes.grid(axis="y", color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    plot.draw(axes, theme)
    axes.tick_params(colors=theme.muted, length=0, labelcolor=theme.muted)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(theme.muted)
    for spine in axes.spines.values():
        spine.set_color(theme.grid)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=9, frameon=False, labelcolor=theme.ink, loc="best")
    return figure


def plots(fleet: Fleet) -> list[Plot]:
    """What the receipts have figures for; empty where there are none."""
    runs = fleet.runs
    return [
        *_over_releases(runs),
        *_latencies(fleet),
        *_by_position(fleet),
    ]


def write_pictures(fleet: Fleet, folder: Path) -> Iterator[Path]:
    """Each plot as a PNG file; yields the files."""
    for plot in plots(fleet):
        yield plot.png(folder)


def short(text: str, most: int = 26) -> str:
    """A name that fits a legend; a leading underscore would hide it from one."""
    text = "".join(each if each.isprintable() else " " for each in text).lstrip("_")
    return text if len(text) <= most else text[: most - 1] + "…"


def file_name(text: str) -> str:
    """A name for a file, whatever a receipt calls itself."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:80] or "unnamed"


def _few(lines: dict[str, Line]) -> dict[str, Line]:
    return dict(list(lines.items())[:MOST_LINES])


def _of(lines: dict[str, Line]) -> str:
    """What a title adds where not all hosts are shown."""
    return f", first {MOST_LINES} of {len(lines)} hosts" if len(lines) > MOST_LINES else ""


# --- tok/s and acceptance over releases ---

Values = dict[str, list[float]]


def _over_releases(runs: Sequence[Run]) -> Iterator[Plot]:
    """One plot a family of comparable deployments: its lines over the releases, oldest first."""
    families: dict[str, list[Run]] = {}
    for run in runs:
        families.setdefault(run.family, []).append(run)
    for family, members in families.items():
        speeds: dict[str, Values] = {}
        accepted: dict[str, Values] = {}
        for run in members:
            release = run.receipt.release
            for asked, values in _speed_values(run).items():
                speeds.setdefault(asked, {}).setdefault(release, []).extend(values)
            for asked, values in _accept_values(run).items():
                accepted.setdefault(asked, {}).setdefault(release, []).extend(values)
        name, what = file_name(family), short(", ".join(members[0].receipt.names[1:]), 60)
        if speeds:
            title = f"tok/s over releases: {what}"
            yield _lines(f"speed-{name}", title, "tokens per second", speeds, members[0].host)
        if accepted:
            title = f"acceptance over releases: {what}"
            unit = "tokens a verify pass"
            yield _lines(f"acceptance-{name}", title, unit, accepted, members[0].host)


def _speed_values(run: Run) -> dict[str, list[float]]:
    """Each round of a bench; the one figure of a smoke run."""
    rounds = {f"C={x.concurrency}": [y.tok_s for y in x.rounds] for x in run.receipt.speed}
    return {asked: rounds.get(asked, [value]) for asked, value in run.speeds.items()}


def _accept_values(run: Run) -> dict[str, list[float]]:
    rounds = [each for point in run.receipt.speed for each in point.rounds]
    known = {
        "known prompts": [run.accept_length],
        "bench": [each.accept_length for each in rounds],
    }
    values = {asked: [x for x in each if x is not None] for asked, each in known.items()}
    return {asked: each for asked, each in values.items() if each}


def _lines(name: str, title: str, unit: str, lines: dict[str, Values], host: str) -> Plot:
    """Medians, in a band from the least to the greatest value."""
    releases = list(dict.fromkeys(release for line in lines.values() for release in line))
    shown = _few(lines)

    def draw(axes: Axes, theme: Theme) -> None:
        for number, (label, line) in enumerate(shown.items()):
            colour, marker = theme.series[number], MARKERS[number]
            at = [index for index, release in enumerate(releases) if release in line]
            values = [line[releases[index]] for index in at]
            middle = [median(each) for each in values]
            axes.fill_between(
                at,
                [min(each) for each in values],
                [max(each) for each in values],
                color=colour,
                alpha=0.18,
                linewidth=0,
            )
            for index, each in zip(at, values, strict=True):  # a band needs two releases
                axes.vlines(index, min(each), max(each), colors=colour, linewidth=5, alpha=0.3)
            axes.plot(at, middle, color=colour, marker=marker, label=label, linewidth=1.8)
        axes.set_xticks(range(len(releases)), [short(each, 18) for each in releases])
        axes.margins(x=0.15)
        top = max(value for line in shown.values() for values in line.values() for value in values)
        axes.set_ylim(0, 1.12 * top or 1)
        axes.set_ylabel(unit)

    said = "; ".join(
        f"{label} ".lstrip()
        + ", ".join(f"{release} {median(values):.2f}" for release, values in line.items())
        for label, line in shown.items()
    )
    return Plot(name, title, said, draw, host)


# --- latency over concurrency ---


def _latencies(fleet: Fleet) -> Iterator[Plot]:
    """Of each host's newest bench of what is in service: median solid, 99 in 100 dashed."""
    benched = {host.host: host.benched for host in fleet.hosts if host.benched}
    for name, (title, read) in LATENCIES.items():
        if benched:
            title = f"{title}, by concurrency{_of(benched)}"
            yield _latency(f"latency-{name}", title, _few(benched), read)


def _latency(
    name: str,
    title: str,
    benched: dict[str, Sequence[SpeedPoint]],
    read: Callable[[Round], Percentiles],
) -> Plot:
    def draw(axes: Axes, theme: Theme) -> None:
        ticks: set[int] = set()
        for number, (host, points) in enumerate(benched.items()):
            colour, marker = theme.series[number], MARKERS[number]
            at = [point.concurrency for point in points]
            ticks |= set(at)
            halves, most = ([_middle(x, read, part) for x in points] for part in ("p50", "p99"))
            axes.plot(at, halves, color=colour, marker=marker, label=short(host))
            axes.plot(at, most, "--", color=colour, marker=marker, markersize=4)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(ticks), [str(each) for each in sorted(ticks)])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set(xlabel="concurrent requests", ylabel="milliseconds")

    said = "; ".join(
        f"{host}: "
        + ", ".join(f"C={x.concurrency} p50 {_middle(x, read, 'p50'):.0f} ms" for x in points)
        for host, points in benched.items()
    )
    return Plot(name, title, said, draw)


def _middle(point: SpeedPoint, read: Callable[[Round], Percentiles], part: str) -> float:
    return median(float(getattr(read(each), part)) for each in point.rounds)


# --- acceptance by position ---


def _by_position(fleet: Fleet) -> Iterator[Plot]:
    known: dict[str, list[float]] = {}
    for host in fleet.hosts:
        for run in host.in_service:
            if run.receipt.accept_by_position:
                known[host.host] = run.receipt.accept_by_position
    title = f"acceptance by position{_of(known)}"
    known = _few(known)
    if not known:
        return

    def draw(axes: Axes, theme: Theme) -> None:
        for number, (host, shares) in enumerate(known.items()):
            at = range(1, len(shares) + 1)
            colour, marker = theme.series[number], MARKERS[number]
            percent = [100 * share for share in shares]
            axes.plot(at, percent, color=colour, marker=marker, label=short(host), linewidth=1.8)
        axes.set_xticks(range(1, max(map(len, known.values())) + 1))
        axes.set_ylim(0, 100)
        axes.set(xlabel="position in the draft", ylabel="% of draft tokens accepted")

    said = "; ".join(
        f"{host}: " + ", ".join(f"{share:.0%}" for share in shares)
        for host, shares in known.items()
    )
    yield Plot("acceptance-by-position", title, said, draw)
