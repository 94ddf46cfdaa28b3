"""Work that goes on beside a check, and waiting for what a check brought about."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

# The engine looks for its clients every few seconds.
END_SECONDS = 15.0


@contextmanager
def repeating(work: Callable[[], object], threads: int) -> Iterator[None]:
    """`work` again and again in each of `threads`, from before the block until after it.

    An error of the work ends the block's caller, once the block is done.
    """
    over, begun = Event(), Event()

    def repeat() -> None:
        while not over.is_set():
            begun.set()
            work()

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(repeat) for _ in range(threads)]
        begun.wait()
        try:
            yield
        finally:
            over.set()
        for thread in running:
            thread.result()


def wait_for(reached: Callable[[], bool], seconds: float) -> bool:
    """Whether `reached` within `seconds`; asked ten times a second."""
    deadline = time.monotonic() + seconds
    while not (is_reached := reached()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return is_reached
