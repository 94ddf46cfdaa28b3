"""Runs the smoke suite in this process and makes its receipt."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite

import pytest

from dflash_kit import paths
from dflash_kit.errors import Undetermined
from dflash_kit.smoke import counters
from dflash_kit.smoke.bench import Bench
from dflash_kit.smoke.checks import CHECKS, Tier, required
from dflash_kit.smoke.client import Engine
from dflash_kit.smoke.container import Container
from dflash_kit.smoke.plugin import Progress, SmokePlugin
from dflash_kit.smoke.receipt import Receipt, this_host
from dflash_kit.smoke.suite import Suite
from dflash_kit.smoke.wanted import Wanted
from dflash_kit.verdicts import Verdict, overall

# The suite's own output is the records; nothing is written beside the tests (read-only root).
OPTIONS = [
    "-p", "no:terminal",
    "-p", "no:cacheprovider",
    "-p", "no:faulthandler",
    "-s",
    "--assert=plain",
    "--import-mode=importlib",
    "--continue-on-collection-errors",
    "--strict-markers",
]  # fmt: skip


def run(
    engine: Engine,
    wanted: Wanted,
    progress: Progress,
    tier: Tier = Tier.QUICK,
    bench: Bench | None = None,
    container: Container | None = None,
    hours: float = 1.0,
) -> Receipt:
    """Run every check of `tier` against `engine`; the tier BENCH needs `bench`, SOAK `hours`.

    Without a `container` the engine is asked from outside, and what only its host sees is skipped.

    Raises:
        Undetermined: pytest itself could not run the suite.
        KeyboardInterrupt: pytest was interrupted, and keeps that to itself.
    """
    suite = Suite(
        engine,
        wanted,
        tier,
        profile=wanted.profile,
        point=wanted.point,
        bench=bench,
        container=container,
        hours=hours,
    )
    suite.look()
    suite.metrics_before = counters.read(engine)
    plugin = SmokePlugin(suite, progress)
    with _no_foreign_plugins():
        # From the root above, or a module of the same name that is loaded already would be taken.
        where = [f"--rootdir={paths.ROOT}", f"--config-file={paths.SMOKE_TESTS / 'pytest.ini'}"]
        code = pytest.main([*OPTIONS, *where, str(paths.SMOKE_TESTS)], plugins=[plugin])
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        reason = "; ".join(plugin.broken) or f"pytest ended with {code!r}"
        raise Undetermined(f"the smoke suite in {paths.SMOKE_TESTS} did not run: {reason}")
    _fail_missing(suite, plugin.broken)
    return _receipt(suite)


@contextmanager
def _no_foreign_plugins() -> Iterator[None]:
    """Plugins that happen to be installed must not change a verdict."""
    name = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _fail_missing(suite: Suite, broken: list[str]) -> None:
    """A missing check is not a pass."""
    for code in set(required(suite.tier)) - suite.records.keys():
        measured = "; ".join(["no record", *broken])
        suite.record(code, Verdict.FAIL, measured, CHECKS[code].says, "repair the smoke suite")


def _receipt(suite: Suite) -> Receipt:
    records = [suite.records[code] for code in required(suite.tier)]
    after = None if suite.gone else counters.read(suite.engine)
    return Receipt(
        tier=suite.tier,
        url=suite.engine.url,
        release=suite.wanted.release,
        profile=suite.profile,
        point=suite.point,
        deployment=suite.wanted.deployment,
        image=suite.wanted.image,
        required=required(suite.tier),
        identity=suite.identity,
        engine=suite.facts,
        host=this_host(suite.identity),
        seconds=round(time.monotonic() - suite.started, 2),
        figures={name: value for name, value in suite.figures.items() if isfinite(value)},
        speed=suite.speed,
        accept_by_position=suite.accept_by_position,
        metrics=counters.moved(suite.metrics_before, after),
        checks=records,
        verdict=overall(records),
    )
