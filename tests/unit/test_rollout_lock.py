import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from dflash_kit.rollout import lock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
GARBAGE = ["", "\x00", "{", "[]", "null", '{"id": "x"}', "12345\n"]


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives as long as the test lets it."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_rollout_is_always_the_same_holder() -> None:
    first = lock.this_run(os.getpid())
    assert lock.this_run(os.getpid()) == first
    assert lock.parse(first.as_line()) == first
    assert "\n" not in first.as_line()


def test_two_rollouts_are_two_holders(other: subprocess.Popen[bytes]) -> None:
    assert lock.this_run(other.pid).id != lock.this_run(os.getpid()).id


def test_a_rollout_tells_when_it_began(other: subprocess.Popen[bytes]) -> None:
    age = datetime.now(UTC) - lock.this_run(other.pid).since
    assert timedelta(seconds=-2) < age < timedelta(seconds=60)


def test_the_lock_of_a_living_process_is_kept(other: subprocess.Popen[bytes]) -> None:
    holder = lock.this_run(other.pid)
    assert not lock.is_over(holder)
    assert not lock.is_over(lock.Holder.model_validate_json(holder.as_line()))


def test_the_lock_of_a_process_that_ended_is_over(other: subprocess.Popen[bytes]) -> None:
    holder = lock.this_run(other.pid)
    other.kill()
    other.wait()
    assert lock.is_over(holder)


def test_the_lock_of_a_zombie_is_over(other: subprocess.Popen[bytes]) -> None:
    holder = lock.this_run(other.pid)
    other.kill()
    while psutil.Process(other.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert lock.is_over(holder)


def test_another_process_of_the_same_number_does_not_keep_a_lock() -> None:
    holder = lock.this_run(os.getpid())
    assert lock.is_over(holder.model_copy(update={"started": holder.started - 100}))


def test_the_lock_of_another_machine_is_never_judged(other: subprocess.Popen[bytes]) -> None:
    holder = lock.this_run(other.pid).model_copy(update={"machine": "elsewhere-000000000000"})
    other.kill()
    other.wait()
    assert not lock.is_over(holder)


def test_a_clock_that_is_set_ends_no_rollout(
    other: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = lock.this_run(other.pid)
    created, booted = psutil.Process.create_time, psutil.boot_time
    # The kernel keeps the time since boot: what it gives as the boot's time moves with the clock.
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: created(process) + 3600)
    monkeypatch.setattr(psutil, "boot_time", lambda: booted() + 3600)
    assert not lock.is_over(holder)
    assert lock.this_run(other.pid).id == holder.id


@pytest.mark.parametrize("text", GARBAGE)
def test_garbage_is_no_lock_and_the_refusal_says_what_is_there(text: str) -> None:
    assert lock.parse(text) is None
    told = lock.refusal("gpu-01", "/opt/dflash-kit/lock", text, NOW)
    assert told.startswith(f"gpu-01: lock /opt/dflash-kit/lock: got {text.strip()!r}, wanted a ")
    assert "\n" not in told


def test_a_lock_without_an_offset_is_no_lock_of_this_kit() -> None:
    line = lock.this_run(os.getpid()).model_copy(update={"since": NOW}).as_line()
    assert lock.parse(line) is not None
    assert lock.parse(line.replace("12:00:00Z", "12:00:00")) is None


def test_a_refusal_names_owner_process_age_and_the_way_out() -> None:
    holder = lock.this_run(os.getpid()).model_copy(
        update={"id": "abcd1234", "owner": "eve@bastion", "pid": 17, "since": NOW}
    )
    later = NOW + timedelta(minutes=83, seconds=5)
    told = lock.refusal("gpu-01", "/opt/dflash-kit/lock", holder.as_line(), later)
    assert told == (
        "gpu-01: lock: another rollout runs: eve@bastion, process 17, for 83 min 5 s; wait for it, "
        "or, if it is over, run again with -e dflash_kit_break_lock=abcd1234"
    )


def test_a_holder_whose_clock_is_ahead_holds_it_for_no_time() -> None:
    holder = lock.this_run(os.getpid()).model_copy(update={"since": NOW + timedelta(hours=1)})
    assert "for 0 min 0 s" in lock.refusal("gpu-01", "/l", holder.as_line(), NOW)


def test_a_lock_in_a_few_words() -> None:
    line = lock.this_run(os.getpid()).model_copy(update={"owner": "eve@bastion", "pid": 17})
    assert lock.described(None) == lock.described("") == ""
    assert lock.described(line.as_line()) == "eve@bastion, process 17"
    assert lock.described("garbage") == "not a lock of this kit"
