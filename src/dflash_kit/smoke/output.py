"""What a person sees of a smoke run: a live line while it runs, then one table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dflash_kit.smoke.checks import Tier, required
from dflash_kit.smoke.receipt import Receipt
from dflash_kit.verdict_table import coloured, counted, show_records

if TYPE_CHECKING:  # it imports pytest
    from dflash_kit.smoke import plugin


@contextmanager
def live_line(url: str, tier: Tier) -> Iterator[plugin.Progress]:
    """A progress line on stderr for as long as the run lasts; where that is no terminal, what a
    check of hours says of itself, a line each time."""
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
        task = progress.add_task("", total=len(required(tier)), url=url)

        def show(done: int, text: str, *, news: bool = False) -> None:
            progress.update(task, completed=done, description=text)
            if news and not console.is_terminal:
                print(text, file=sys.stderr, flush=True)

        yield show


def show(receipt: Receipt) -> None:
    """The table, what to do about each check that did not pass, the figures and the verdict."""
    console = Console(highlight=False, markup=True)
    show_records(console, f"smoke {receipt.url}", receipt.checks)
    figures = "  ".join(f"{name} {value:g}" for name, value in receipt.figures.items())
    if figures:
        console.print(f"figures: {figures}")
    for point in receipt.speed:
        console.print(f"C={point.concurrency}: {point}")
    console.print(
        f"{' '.join(receipt.names)}: {coloured(receipt.verdict)} "
        f"({counted(receipt.checks)} in {receipt.seconds:.1f} s)"
    )
