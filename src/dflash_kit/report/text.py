"""Receipts and their differences in a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table

from dflash_kit.report.collect import Fleet, History, Run
from dflash_kit.report.diff import NOT_MEASURED, Diff, Figure
from dflash_kit.verdict_table import coloured
from dflash_kit.verdicts import Verdict


def show_fleet(console: Console, fleet: Fleet) -> None:
    """The fleet, then what asks for somebody to do something."""
    table = _table("host", "release", "verdict", "accept", "tok/s", "since")
    for host in fleet.hosts:
        table.add_row(
            escape(host.host),
            escape(host.newest.receipt.release),
            coloured(host.newest.receipt.verdict),
            figure(host.accept_length),
            tok_s(host),
            f"{host.since:%Y-%m-%d}",
        )
    console.print(table)
    for host in fleet.hosts:
        for line in steps(host.newest):
            console.print(f"{escape(host.host)}: {escape(line)}", soft_wrap=True)
    for line in fleet.refused:
        console.print(f"not believed: {escape(line)}", soft_wrap=True)


def escape(text: str) -> str:
    """Text of a receipt for a terminal: neither markup nor a control sequence in it has effect."""
    return escape_markup("".join(each if each.isprintable() else " " for each in text))


def steps(run: Run) -> list[str]:
    """What did not pass and what to do about it; each a line."""
    return [
        f"{check.verdict} {check.code}: {check.measured}, wanted {check.wanted}"
        + (f"; {check.next_step}" if check.next_step else "")
        for check in run.trouble
    ]


def tok_s(host: History) -> str:
    """`C=1 120`, each a line."""
    return (
        "\n".join(f"{asked} {value:,.0f}" for asked, value in host.speeds.items()) or NOT_MEASURED
    )


def figure(value: float | None, digits: int = 2) -> str:
    """A figure, or that there is none: never 0 for want of one."""
    return NOT_MEASURED if value is None else f"{value:,.{digits}f}"


def show_diff(console: Console, diff: Diff, names: tuple[str, str]) -> None:
    """Inputs, then outcome, then what it comes to."""
    console.print(f"A {escape(names[0])}\nB {escape(names[1])}\n", soft_wrap=True)
    _show_rows(
        console, "inputs that differ", ("", "A", "B"), ((x.name, x.a, x.b) for x in diff.inputs)
    )
    for sign, patches in (("+", diff.patches_added), ("-", diff.patches_removed)):
        for name in patches:
            console.print(f"{sign} {escape(name)}")
    rows = ((x.code, x.a or "not asked", x.b or "not asked", x.measured) for x in diff.checks)
    _show_rows(console, "checks that differ", ("check", "A", "B", "measured in B"), rows)
    figures = ((x.name, figure(x.a), figure(x.b), ratio(x), x.meaning) for x in diff.figures)
    _show_rows(console, "figures", ("", "A", "B", "B/A", ""), figures)
    for check in diff.checks:
        if check.next_step:
            console.print(f"{check.b} {check.code}: {escape(check.next_step)}", soft_wrap=True)
    a, b = diff.verdicts
    console.print(f"A {coloured(a)}, B {coloured(b)}: {MEANING[diff.verdict]}")


# Columns of the fleet that are never broken: those with free text give way.
_WHOLE = ("release", "verdict", "accept", "tok/s", "since")
MEANING = {
    Verdict.PASS: "B is not worse",
    Verdict.FAIL: "B is worse",
    Verdict.INCONCLUSIVE: "B no longer proves all that A did",
}


def ratio(figure: Figure) -> str:
    """`0.93 +-0.02`, as far as it is known."""
    if figure.ratio is None:
        return "-"
    return f"{figure.ratio:.3f}" + ("" if figure.noise is None else f" ±{figure.noise:.3f}")


def _show_rows(
    console: Console, title: str, heads: tuple[str, ...], rows: Iterable[tuple[Any, ...]]
) -> None:
    table = _table(*heads, title=title)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    if table.row_count:
        console.print(table)
    else:
        console.print(f"{title}: none")


def _table(*heads: str, title: str | None = None) -> Table:
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for head in heads:
        table.add_column(head, overflow="fold", no_wrap=head in _WHOLE)
    return table
