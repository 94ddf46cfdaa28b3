"""Fixtures: one engine for the tests that only look, a fresh one for those that break it."""

from collections.abc import Iterator

import pytest

from tests.e2e.fleet import record
from tests.e2e.fleet.fixtures import fleet  # noqa: F401
from tests.e2e.node import Node, running


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        record.FILE.unlink(missing_ok=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if record.FILE.exists():
        terminalreporter.write_line(record.table())


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """The default engine: profile cpu-tiny, point latency."""
    with running("dflash-kit-e2e", 30010) as node:
        yield node


@pytest.fixture(scope="module")
def victim() -> Iterator[Node]:
    """An engine that the module's tests may hurt."""
    with running("dflash-kit-e2e-victim", 30011) as node:
        yield node
