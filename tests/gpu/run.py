"""The engines of a run, and its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import shapes
from engine import DUMMY, Engine
from release import Release


class Run:
    """The engines of a run, and its report."""

    def __init__(
        self, release: Release, beside: Release | None, work: Path, tiny: Path, gpus: int
    ) -> None:
        self.release, self.beside = release, beside
        self.work, self.tiny, self.gpus = work, tiny, gpus
        self.report: dict[str, Any] = {}
        self.failed: list[str] = []
        self.engines: list[Engine] = []
        shapes.write(work / "models")

    def engine(
        self,
        name: str,
        tree: str,
        arguments: Sequence[str],
        gpus: str = "0",
        release: Release | None = None,
        **variables: str,
    ) -> Engine:
        """Start an engine of `release`, or of the one that is measured."""
        of = release or self.release
        started = Engine(name, of, tree, arguments, self.work, gpus, **variables)
        self.engines.append(started)
        return started

    def dummy(
        self,
        name: str,
        tree: str,
        model: str,
        *more: str,
        draft: bool = True,
        gpus: str = "0",
        release: Release | None = None,
    ) -> Engine:
        path = self.work / "models" / model
        arguments = ["--model-path", str(path), "--disable-radix-cache", *DUMMY, *more]
        if draft:
            arguments += ["--speculative-algorithm", "DFLASH"]
            arguments += ["--speculative-draft-model-path", f"{path}-dflash"]
        return self.engine(name, tree, arguments, gpus, release)

    def part(self, name: str, measure: Callable[[Run], None]) -> None:
        """One part; an error ends it, and leaves no engine behind."""
        try:
            measure(self)
        except Exception as error:
            self.note(name, "ended by", f"{type(error).__name__}: {error}", wanted=False)
        finally:
            stop(self.engines)

    def note(self, part: str, key: str, found: Any, wanted: bool = True) -> None:
        """Keep a finding; one that is not as wanted fails the run."""
        self.report.setdefault(part, {})[key] = found
        print(f"{part}: {key}: {found}{'' if wanted else ': NOT AS WANTED'}", flush=True)
        # In a report that is added to, it may have failed before.
        self.failed[:] = [each for each in self.failed if each != f"{part}: {key}"]
        if not wanted:
            self.failed.append(f"{part}: {key}")


def stop(engines: Iterable[Engine]) -> None:
    for engine in engines:
        engine.stop()
