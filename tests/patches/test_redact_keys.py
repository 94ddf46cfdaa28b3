"""No key in a log line, a response of the API or a dump; the live arguments keep theirs."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sglang
from inside import inside
from sglang.srt.entrypoints import engine, http_server
from sglang.srt.managers import scheduler, tokenizer_manager
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

WITHOUT = r"(?s)(?=.*the log shows)(?=.*/server_info shows)(?=.*the dump shows)"

KEYS = {
    "api_key": "kept-from-users-1",
    "admin_api_key": "kept-from-users-2",
    "ssl_keyfile_password": "kept-from-users-3",
}


@pytest.fixture
def arguments() -> ServerArgs:
    # "dummy" is sglang's own name for arguments without a model behind them.
    made = ServerArgs(model_path="dummy", ssl_certfile=__file__, ssl_keyfile=__file__, **KEYS)
    set_global_server_args_for_scheduler(made)
    return made


def assert_no_key(shown: str | bytes, where: str) -> None:
    text = shown if isinstance(shown, str) else shown.decode(errors="replace")
    found = [name for name, key in KEYS.items() if key in text]
    assert not found, f"{where} shows {found}"


def assert_keys_alive(arguments: ServerArgs) -> None:
    assert {name: getattr(arguments, name) for name in KEYS} == KEYS


def test_start_up_log(
    arguments: ServerArgs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stop(*_: Any) -> None:
        raise InterruptedError

    monkeypatch.setattr(engine.Engine, "_launch_scheduler_processes", stop)
    for step in ("configure_logger", "_set_envs_and_config", "load_plugins", "_set_gc"):
        monkeypatch.setattr(engine, step, lambda *_: None, raising=False)
    monkeypatch.setattr(ServerArgs, "check_server_args", lambda self: None)
    with caplog.at_level(logging.INFO), pytest.raises(InterruptedError):
        engine.Engine._launch_subprocesses(
            arguments, print, print, print, port_args=SimpleNamespace()
        )
    assert re.search(r"model_path'?[=:] ?'dummy'", caplog.text)
    assert_no_key(caplog.text, "the log")


def test_server_info(arguments: ServerArgs, monkeypatch: pytest.MonkeyPatch) -> None:
    state = SimpleNamespace(tokenizer_manager=inside.manager(arguments), scheduler_info={})
    monkeypatch.setattr(http_server, "_global_state", state)
    for endpoint in (http_server.server_info, http_server.get_server_info):
        info = asyncio.run(endpoint())
        assert info["model_path"] == "dummy"
        assert_no_key(json.dumps(info), "/server_info")
    assert_keys_alive(arguments)


def test_server_info_of_the_python_engine(arguments: ServerArgs) -> None:
    bare = object.__new__(engine.Engine)
    bare.loop = asyncio.new_event_loop()
    bare.tokenizer_manager = inside.manager(arguments)
    bare._scheduler_init_result = SimpleNamespace(scheduler_infos=[{}])
    assert_no_key(json.dumps(bare.get_server_info()), "get_server_info()")
    bare.loop.close()


def test_internal_state(arguments: ServerArgs) -> None:
    answer = inside.internal_state()
    assert answer["model_path"] == "dummy"
    assert_no_key(repr(answer), "the internal state")
    assert_keys_alive(inside.live_arguments())


def test_set_internal_state(arguments: ServerArgs, caplog: pytest.LogCaptureFixture) -> None:
    request = SimpleNamespace(server_args={"pp_max_micro_batch_size": 2})
    with caplog.at_level(logging.INFO):
        answer = scheduler.Scheduler.set_internal_state(inside.scheduler(), request)
    assert answer.updated
    assert_no_key(repr(answer), "the answer of /set_internal_state")
    assert "updated" in caplog.text
    assert_no_key(caplog.text, "the log")
    assert_keys_alive(inside.live_arguments())


def test_request_dump(arguments: ServerArgs, tmp_path: Path) -> None:
    manager = inside.manager(arguments)
    file = tmp_path / "dump.pkl"

    async def dump() -> None:
        tokenizer_manager.TokenizerManager._dump_data_to_file(manager, ["request"], str(file), "")
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(dump())
    assert pickle.loads(file.read_bytes())["server_args"].model_path == "dummy"
    assert_no_key(file.read_bytes(), "the dump")


def test_crash_dump(arguments: ServerArgs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["launch", "--api-key", KEYS["api_key"]])
    manager = inside.manager(
        arguments,
        crash_dump_folder=str(tmp_path),
        crash_dump_performed=False,
        crash_dump_request_list=["request"],
        rid_to_state={},
    )
    tokenizer_manager.TokenizerManager.dump_requests_before_crash(manager, "host")
    (file,) = tmp_path.rglob("crash_dump_*.pkl")
    dump = file.read_bytes()
    assert pickle.loads(dump)["requests"] == ["request"]
    assert_no_key(dump, "the dump")


def test_no_format_of_the_arguments_shows_a_key(arguments: ServerArgs) -> None:
    shown = f"{arguments} {arguments!r} {arguments=} {[arguments]}"
    assert "model_path='dummy'" in shown
    assert_no_key(shown, "the text")


# What serializes raw arguments, and what puts a key into text for anything but a request's header.
RAW = re.compile(
    r"""\b(?:asdict|vars|dumps?)\(\s*(?!redacted\b)[^()]*\b(?:get_global_)?server_args\b
    | server_args(?:\(\))?\.__(?:dict|getstate)__(?!\.get\("_)
    | ["']server_args["']:\s(?!redacted\b|\{|self\._server_args_for_dump\(\))
    | (?<!Bearer\s)\{[^{}"']*\.(?:admin_api_key|api_key|ssl_keyfile_password)\b[^{}"']*\}""",
    re.VERBOSE,
)

# Functions that blank what they are given, and what is quoted in a docstring.
BLANKED = re.compile(
    r"``[^`]*``|"
    r"\b(?:redacted_config|resolved_config_dict)\(\s*"
    r"(?:dataclasses\.)?(?:asdict|vars)\([\w.]*server_args\)"
)


@pytest.mark.parametrize(
    "site",
    [
        "asdict(self.server_args)",
        "vars(get_global_server_args())",
        "json.dumps(server_args.__dict__)",
        "get_global_server_args().__dict__",
        "pickle.dump(server_args, file)",
        "pickle.dumps(\n    self.server_args\n)",
        "{'server_args': self.server_args}",
        'f"started with {server_args.api_key}"',
        'f"{self.server_args.admin_api_key!r}"',
    ],
)
def test_a_raw_place_is_seen(site: str) -> None:
    assert RAW.search(BLANKED.sub("", site))


def test_no_other_place_serializes_the_arguments() -> None:
    """A site that a later version adds has to go through redacted() too."""
    srt = Path(sglang.__file__).parent / "srt"
    texts = {str(file): BLANKED.sub("", file.read_text()) for file in srt.rglob("*.py")}
    assert not [file for file, text in texts.items() if RAW.search(text)]


def less_what_is_blanked(text: str) -> str:
    """`text` without the arguments of each call that blanks what it is given."""
    kept, opening = "", "redact_watermark_secrets("
    while opening in text:
        before, _, text = text.partition(opening)
        kept, depth = kept + before, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[0], 0)
            text = text[1:]
    return kept + text


def test_what_is_blanked_is_left_out() -> None:
    call = "a = redact_watermark_secrets({**b.resolved_dict(), 'c': d(1)})\ne()"
    assert less_what_is_blanked(call) == "a = \ne()"


def test_each_serialized_configuration_is_blanked() -> None:
    srt = Path(sglang.__file__).parent / "srt"
    call = re.compile(rf"(?<!def )(?<!`)\b({'|'.join(inside.SERIALIZERS) or '(?!)'})\(")
    found = {
        line.strip()
        for file in srt.rglob("*.py")
        for line in less_what_is_blanked(re.sub(r"``.*?``", "", file.read_text())).splitlines()
        if call.search(line)
    }
    assert found == inside.HANDED_ON
