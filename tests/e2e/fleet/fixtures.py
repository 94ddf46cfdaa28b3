"""The fleet, once a session: every rollout test takes the same two hosts."""

from collections.abc import Iterator

import pytest

from tests.e2e.fleet.fleet import Fleet


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """Two bare hosts and a registry."""
    made = Fleet()
    try:
        made.up()
        yield made
    finally:
        made.down()
