"""Fixtures: one engine for the tests that only look, a fresh one for those that break it."""

from collections.abc import Iterator

import pytest

from tests.e2e.fleet.fixtures import fleet  # noqa: F401
from tests.e2e.node import Node, running


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
