"""The report's page: one file of HTML, without a script and without anything from a network."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dflash_kit.report import plots, text
from dflash_kit.report.collect import Fleet, History
from dflash_kit.report.diff import NOT_MEASURED
from dflash_kit.smoke.speed import SpeedPoint
from dflash_kit.verdicts import Verdict

HERE = Path(__file__).parent
# A verdict is never told by its colour alone.
SIGNS = {
    Verdict.PASS: "✓",
    Verdict.FAIL: "✗",
    Verdict.WARN: "!",
    Verdict.INCONCLUSIVE: "?",
    Verdict.SKIP: "–",
}
# Of a host's history; older receipts are there when they are asked for.
RECENT = 10


def render(fleet: Fleet) -> str:
    """The page as text. Whatever a receipt says is text on it, never markup."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn = plots.plots(fleet)
    verdicts = Counter(host.newest.receipt.verdict for host in fleet.hosts)
    return environment.get_template("page.html.jinja").render(
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        made=datetime.now(UTC),
        fleet=fleet,
        verdicts=[(verdict, verdicts[verdict]) for verdict in Verdict if verdicts[verdict]],
        numbered=[(number, host) for number, host in enumerate(fleet.hosts, 1)],
        fleet_plots=[plot for plot in drawn if not plot.host],
        plots_of=lambda host: [plot for plot in drawn if plot.host == host],
        signs=SIGNS,
        recent=RECENT,
        figure=text.figure,
        asked=asked,
        latency=latency,
        not_measured=NOT_MEASURED,
    )


def asked(host: History) -> list[str]:
    """All that the host's speed was ever measured with, the bench first."""
    known = dict.fromkeys(name for run in host.runs for name in run.speeds)
    return sorted(known, key=lambda name: (not name.startswith("C="), int(name.rpartition("=")[2])))


def latency(point: SpeedPoint, name: str) -> str:
    """`12 / 40`: the median and 99 in 100 of a latency, in milliseconds."""
    parts = [
        [getattr(getattr(each, name), part) for each in point.rounds] for part in ("p50", "p99")
    ]
    return " / ".join(f"{median(part):,.0f}" for part in parts)
