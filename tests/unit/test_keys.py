import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from dflash_kit.engine.keys import Keys, ensure_keys, read_key
from dflash_kit.engine.supervisor import Watch
from dflash_kit.errors import InputError


def test_first_use_makes_two_different_private_keys(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "keys"
    keys = ensure_keys(folder)
    assert keys.user != keys.admin
    assert min(len(keys.user), len(keys.admin)) >= 32
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(file.name for file in folder.iterdir()) == ["admin", "user"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_later_use_keeps_the_keys_and_makes_only_the_missing_one(tmp_path: Path) -> None:
    first = ensure_keys(tmp_path)
    assert ensure_keys(tmp_path) == first
    (tmp_path / "admin").unlink()
    second = ensure_keys(tmp_path)
    assert second.user == first.user
    assert second.admin != first.admin


def test_a_key_is_never_taken_for_an_option(tmp_path: Path) -> None:
    for number in range(200):  # of urlsafe tokens, 3 in 200 would begin with "-"
        keys = ensure_keys(tmp_path / str(number))
        assert keys.user.isalnum() and keys.admin.isalnum()


def _ensure(folder: Path, barrier: object, queue: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    keys = ensure_keys(folder)
    queue.put((keys.user, keys.admin))  # type: ignore[attr-defined]


def test_two_processes_at_once_agree(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for number in range(20):
        barrier, queue = context.Barrier(2), context.Queue()
        both = [
            context.Process(target=_ensure, args=(tmp_path / str(number), barrier, queue))
            for _ in range(2)
        ]
        for process in both:
            process.start()
        got = {queue.get(timeout=60) for _ in both}
        for process in both:
            process.join()
        assert len(got) == 1


@pytest.mark.parametrize(
    ("content", "mode", "wanted"),
    [
        ("", 0o600, "is empty"),
        ("  \n", 0o600, "is empty"),
        ("abc", 0o640, "got mode 0640, wanted 0600"),
        ("abc", 0o604, "got mode 0604, wanted 0600"),
        ("-abc", 0o600, "the first of them a letter or digit"),
        ("two words", 0o600, "letters, digits"),
        ("abc", 0o600, "got 3 characters, wanted at least 16"),
    ],
)
def test_a_key_file_that_cannot_be_trusted(
    tmp_path: Path, content: str, mode: int, wanted: str
) -> None:
    ensure_keys(tmp_path)
    file = tmp_path / "user"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(InputError) as caught:
        ensure_keys(tmp_path)
    message = str(caught.value)
    assert str(file) in message and wanted in message
    assert "\n" not in message
    assert "abc" not in message


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file")
    with pytest.raises(InputError, match=r"cannot be written: .*wanted a folder of uid"):
        ensure_keys(tmp_path / "keys")


def test_a_missing_key_says_who_makes_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist: `dflash-kit serve` makes it"):
        read_key(tmp_path, "user")


def test_repr_shows_no_key() -> None:
    assert "secret" not in repr(Keys(user="secret-u", admin="secret-a"))
    assert "secret" not in repr(Watch(port=1, key="secret-u", hang_seconds=1.0))


def test_another_umask_does_not_open_the_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ensure_keys(tmp_path / "keys")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "keys" / "admin").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
