"""The engine returns the identity that its launcher wrote, read once, before the start."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inside import inside
from sglang.srt.entrypoints import http_server
from sglang.srt.server_args import ServerArgs

WITHOUT = r"KeyError: 'dflash_kit'"

IDENTITY = {"release": "0.5.11-dflash.1", "patches": ["report-release"], "tree": "0" * 64}


@pytest.fixture
def identity_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    read_once = getattr(http_server, "release_identity", None)
    file = tmp_path / "identity.json"
    file.write_text(json.dumps(IDENTITY))
    monkeypatch.setenv("DFLASH_KIT_IDENTITY", str(file))
    if read_once:
        read_once.cache_clear()
    yield file
    if read_once:
        read_once.cache_clear()


@pytest.fixture
def info(monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    manager = inside.manager(ServerArgs(model_path="dummy"))
    state = SimpleNamespace(tokenizer_manager=manager, scheduler_info={})
    monkeypatch.setattr(http_server, "_global_state", state)
    return lambda: asyncio.run(http_server.server_info())


def test_identity_is_reported(identity_file: Path, info: Callable[[], dict[str, Any]]) -> None:
    assert info()["dflash_kit"] == IDENTITY
    assert asyncio.run(http_server.get_server_info())["dflash_kit"] == IDENTITY


def test_identity_cannot_change_under_a_running_engine(
    identity_file: Path, info: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def launched(**_: Any) -> None:
        raise InterruptedError

    monkeypatch.setattr(http_server.Engine, "_launch_subprocesses", launched)
    with pytest.raises(InterruptedError):
        http_server.launch_server(ServerArgs(model_path="dummy"))
    identity_file.write_text(json.dumps({"release": "another"}))
    assert info()["dflash_kit"] == IDENTITY


def test_without_the_variable_nothing_is_reported(
    identity_file: Path, info: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DFLASH_KIT_IDENTITY")
    assert "dflash_kit" not in info()


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), ("{", "cannot read"), ("[1]", "got list, wanted a JSON object")],
)
def test_unreadable_identity_ends_the_start_with_one_line(
    identity_file: Path, content: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launched(**_: Any) -> None:
        raise AssertionError("the engine was started")

    monkeypatch.setattr(http_server.Engine, "_launch_subprocesses", launched)
    if content is None:
        identity_file.unlink()
    else:
        identity_file.write_text(content)
    with pytest.raises(SystemExit) as ended:
        http_server.launch_server(ServerArgs(model_path="dummy"))
    message = str(ended.value.code)
    assert message.startswith(f"DFLASH_KIT_IDENTITY={identity_file}: ")
    assert reason in message and "\n" not in message
