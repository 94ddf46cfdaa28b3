"""What a person sees of checks: one table, then what to do about each that did not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from dflash_kit.verdicts import Record, Verdict

COLOURS = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.WARN: "yellow",
    Verdict.INCONCLUSIVE: "bold magenta",
    Verdict.SKIP: "dim",
}
WORDS = {
    Verdict.PASS: "passed",
    Verdict.FAIL: "failed",
    Verdict.WARN: "warned",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.SKIP: "skipped",
}


def show_records(console: Console, title: str, records: Sequence[Record]) -> None:
    """Print the table of `records` and, once each, the next steps that they ask for."""
    # Without outer borders the four columns fit a terminal of 80 characters.
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("check", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("measured", overflow="fold")
    table.add_column("wanted", overflow="fold")
    for record in records:
        table.add_row(
            record.code,
            coloured(record.verdict),
            _plain(record.measured),
            _plain(record.wanted),
        )
    console.print(table)
    steps: dict[tuple[str, str], list[str]] = {}
    for record in records:
        if record.next_step:
            steps.setdefault((record.verdict, record.next_step), []).append(record.code)
    for (verdict, step), codes in steps.items():
        console.print(f"{verdict} {', '.join(codes)}: {_plain(step)}")


def coloured(verdict: Verdict) -> str:
    """The verdict as rich's markup."""
    return f"[{COLOURS[verdict]}]{verdict}[/]"


def counted(records: Iterable[Record]) -> str:
    """`12 passed, 1 failed`."""
    counts = Counter(record.verdict for record in records)
    return ", ".join(f"{counts[x]} {word}" for x, word in WORDS.items() if counts[x])


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
