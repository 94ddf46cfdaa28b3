"""What a person sees of a smoke run: a live line while it runs, then one table."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dflash_kit.smoke.checks import CHECKS
from dflash_kit.smoke.receipt import Receipt, Verdict

if TYPE_CHECKING:  # it imports pytest
    from dflash_kit.smoke import plugin

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


@contextmanager
def live_line(url: str) -> Iterator[plugin.Progress]:
    """A progress line on stderr for as long as the run lasts; nothing where no person looks."""
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("smoke {task.fields[url]}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=len(CHECKS), url=url)
        yield lambda done, code: progress.update(task, completed=done, description=code)


def show(receipt: Receipt) -> None:
    """The table, what to do about each check that did not pass, the figures and the verdict."""
    console = Console(highlight=False, markup=True)
    # Without outer borders the four columns fit a terminal of 80 characters.
    table = Table(title=f"smoke {receipt.url}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("check", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("measured", overflow="fold")
    table.add_column("wanted", overflow="fold")
    for record in receipt.checks:
        style = COLOURS[record.verdict]
        verdict = f"[{style}]{record.verdict}[/]"
        table.add_row(record.code, verdict, _plain(record.measured), _plain(record.wanted))
    console.print(table)
    steps: dict[tuple[str, str], list[str]] = {}
    for record in receipt.checks:
        if record.next_step:
            steps.setdefault((record.verdict, record.next_step), []).append(record.code)
    for (verdict, step), codes in steps.items():
        console.print(f"{verdict} {', '.join(codes)}: {_plain(step)}")
    figures = "  ".join(f"{name} {value:g}" for name, value in receipt.figures.items())
    if figures:
        console.print(f"figures: {figures}")
    counts = Counter(record.verdict for record in receipt.checks)
    counted = ", ".join(f"{counts[x]} {word}" for x, word in WORDS.items() if counts[x])
    style = COLOURS[receipt.verdict]
    console.print(
        f"{' '.join(receipt.deployment)}: [{style}]{receipt.verdict}[/] "
        f"({counted} in {receipt.seconds:.1f} s)"
    )


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
