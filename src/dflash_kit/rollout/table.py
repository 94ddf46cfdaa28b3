"""The table of a fleet at the end of a rollout, as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

_HEADS = ("host", "before", "after", "result", "acceptance", "tok/s")
NONE = "-"


@dataclass(frozen=True)
class Row:
    """One host; acceptance in tokens a verify pass, tokens/s of one request."""

    host: str
    before: str
    after: str
    result: str
    acceptance: str
    tok_s: str

    @classmethod
    def from_stats(cls, host: str, kept: Mapping[str, Any], unreachable: bool, failed: bool) -> Row:
        """From what the tasks kept of a host: nothing where they did not get to it."""
        figures = kept.get("figures", {})
        result = kept.get("result", "failed before the switch" if failed else "not begun")
        if unreachable:
            result = "unreachable"
        return cls(
            host,
            kept.get("before") or NONE,
            kept.get("after") or NONE,
            result,
            _figure(figures.get("accept_length"), "{:.2f}"),
            _figure(figures.get("tok_s_c1"), "{:.0f}"),
        )


def lines(rows: Sequence[Row]) -> list[str]:
    """The table, its columns as wide as their longest cell, and what it comes to."""
    return [*_columns(_HEADS, [astuple(row) for row in rows]), "", _summary(rows)]


def status_lines(hosts: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """What runs where: host -> its summary (state.summary), None where it gave none."""
    cells, notes = [], []
    for host, seen in hosts.items():
        if seen is None:
            cells.append((host, "unreachable", *[NONE] * 4))
            continue
        patches = seen["patches"]
        cells.append(
            (
                host,
                seen["current"] or "nothing",
                seen["health"],
                str(seen["started"])[:19] or NONE,
                seen["verdict"] or NONE,
                "; ".join(seen["drift"]) and "changed by hand",
            )
        )
        notes += [f"{host}: {len(patches)} patches: {', '.join(patches)}"] * bool(patches)
        notes += [f"{host}: {seen['withdrawn']}"] * bool(seen["withdrawn"])
        notes += [f"{host}: changed by hand: {line}" for line in seen["drift"]]
        notes += [f"{host}: a rollout holds it: {seen['lock']}"] * bool(seen["lock"])
    heads = ("host", "deployment", "engine", "since (UTC)", "last receipt", "drift")
    return [*_columns(heads, cells), "", *notes]


def _columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [heads, *rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    texts = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return ["", texts[0], "-" * sum(widths, 2 * (len(widths) - 1)), *texts[1:]]


def _summary(rows: Sequence[Row]) -> str:
    results = [row.result for row in rows]
    if all(result == "unchanged" for result in results):
        return f"nothing to do: {_hosts(len(rows))} run what was asked for, proved"
    good = sum(result in ("unchanged", "proved") for result in results)
    return f"{good} of {_hosts(len(rows))} run what was asked for, proved"


def _hosts(count: int) -> str:
    return f"{count} host{'' if count == 1 else 's'}"


def _figure(value: Any, shape: str) -> str:
    return NONE if value is None else shape.format(value)
