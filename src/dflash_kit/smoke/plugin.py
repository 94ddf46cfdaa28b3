"""The pytest plugin that turns the smoke suite's tests into records."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

import pytest

from dflash_kit.smoke.checks import CHECKS, required
from dflash_kit.smoke.suite import NOT_RUN, Suite
from dflash_kit.verdicts import Verdict

SUITE = pytest.StashKey[Suite]()


class Progress(Protocol):
    """Shows how many checks are done, and what is at work; `news` comes from within a check."""

    def __call__(self, done: int, text: str, /, *, news: bool = False) -> None: ...


def code_of(item: pytest.Item) -> str:
    """The check that a test answers: its marker check(code)."""
    marker = item.get_closest_marker("check")
    if marker is None or not marker.args or marker.args[0] not in CHECKS:
        raise pytest.UsageError(f"{item.nodeid}: wanted a marker check(code) with a known code")
    return str(marker.args[0])


class SmokePlugin:
    """Orders the tests, collects what was found, and stops asking an engine that is gone."""

    def __init__(self, suite: Suite, progress: Progress) -> None:
        self.suite = suite
        self.broken: list[str] = []
        self._progress = progress
        suite.say = lambda text: progress(len(suite.records), text, news=True)

    @pytest.hookimpl(tryfirst=True)  # before the suite's conftest looks for it
    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "check(code): the check that this test answers")
        config.stash[SUITE] = self.suite

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken.append(f"{report.nodeid}: {report.longreprtext.splitlines()[-1]}")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = required(self.suite.tier)
        items[:] = [item for item in items if code_of(item) in order]
        items.sort(key=lambda item: order.index(code_of(item)))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        code = code_of(item)
        self._progress(len(self.suite.records), code)
        if self.suite.stopped and not CHECKS[code].anyway:
            measured = f"not run: {self.suite.stopped}"
            self.suite.record(code, Verdict.INCONCLUSIVE, measured, "-", NOT_RUN)
            pytest.skip(measured)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        code = code_of(item)
        if call.excinfo is not None and code not in self.suite.records:
            self.suite.record_error(code, CHECKS[code].says, call.excinfo.value)
        if call.when == "call" and code in self.suite.records:
            self.suite.records[code].seconds = round(call.duration, 3)
        return report
