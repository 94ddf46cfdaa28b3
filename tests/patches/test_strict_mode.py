"""In strict mode arguments that would cost DFlash speed end the start, in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inside import inside
from sglang.srt.entrypoints import engine
from sglang.srt.managers import scheduler
from sglang.srt.server_args import ServerArgs

WITHOUT = r"DID NOT RAISE (<class ')?SystemExit"

GOOD: dict[str, Any] = {
    "device": "cuda",
    "attention_backend": "triton",
    "speculative_num_draft_tokens": 8,
    "max_running_requests": 4,
} | inside.graph_arguments([1, 2, 4])
NO_GRAPHS = inside.graph_arguments([1, 2, 4], disabled=True)


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_KIT_STRICT", "1")


def handled(**given: Any) -> Any:
    """Real arguments after the engine's own treatment of speculative decoding."""
    args = ServerArgs(
        model_path="dummy",
        speculative_algorithm="DFLASH",
        speculative_draft_model_path="/nowhere",
        **GOOD | given,
    )
    return inside.handle_speculative_decoding(args)


def refusal(**given: Any) -> str:
    with pytest.raises(SystemExit) as ended:
        handled(**given)
    text = str(ended.value.code)
    assert text.startswith("DFlash refused (DFLASH_KIT_STRICT=1): ") and "\n" not in text
    return text


MISUSES: list[tuple[dict[str, Any], str]] = [
    ({"speculative_num_steps": 3}, "--speculative-num-steps: got 3, wanted 1"),
    ({"speculative_eagle_topk": 4}, "--speculative-eagle-topk: got 4, wanted 1"),
    ({"max_running_requests": None}, "--max-running-requests: got none"),
    ({"max_running_requests": 5}, "--max-running-requests: got 5, wanted at most 4"),
    (NO_GRAPHS, "CUDA graphs are disabled"),
    ({"disable_cuda_graph_padding": True}, "no graph for batches of [3]"),
    *inside.EAGER_DRAFT,
    ({"enable_two_batch_overlap": True}, "--enable-two-batch-overlap"),
]


@pytest.mark.usefixtures("strict")
def test_good_arguments_pass() -> None:
    args = handled(speculative_num_steps=1)
    assert (args.speculative_num_steps, args.max_running_requests) == (1, 4)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(("given", "wanted"), MISUSES, ids=lambda value: str(value)[:40])
def test_a_misuse_is_refused(given: dict[str, Any], wanted: str) -> None:
    assert wanted in refusal(**given)


@pytest.mark.usefixtures("strict")
def test_all_misuses_are_named_at_once() -> None:
    text = refusal(speculative_num_steps=3, max_running_requests=9, enable_two_batch_overlap=True)
    assert text.count(";") == 2 and all(
        flag in text for flag in ("num-steps", "max-running-requests", "two-batch-overlap")
    )


@pytest.mark.parametrize("value", [None, "0"])
@pytest.mark.parametrize(("given", "_"), MISUSES, ids=lambda value: str(value)[:40])
def test_without_strict_mode_it_is_sglang_as_it_is(
    given: dict[str, Any], _: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DFLASH_KIT_STRICT", raising=False)
    if value is not None:
        monkeypatch.setenv("DFLASH_KIT_STRICT", value)
    args = handled(**given)
    assert (args.speculative_num_steps, args.speculative_eagle_topk) == (1, 1)
    assert args.max_running_requests == (given.get("max_running_requests", 4) or 48)


@pytest.mark.usefixtures("strict")
def test_a_cpu_has_no_graphs_to_miss() -> None:
    given = NO_GRAPHS | {"max_running_requests": 9, "moe_a2a_backend": "deepep"}
    assert handled(**given, device="cpu").max_running_requests == 9


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("length", ["0", "3.5"])
def test_made_up_acceptance(length: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", length)
    assert f"SGLANG_SIMULATE_ACC_LEN: got {length}" in refusal(device="cpu")


@pytest.mark.usefixtures("strict")
def test_a_block_size_that_nobody_states(tmp_path: Path) -> None:
    assert "configuration cannot be read" in refusal(speculative_num_draft_tokens=None)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    where = {"speculative_num_draft_tokens": None, "revision": None}
    args = ServerArgs(
        model_path="dummy",
        speculative_algorithm="DFLASH",
        speculative_draft_model_path=str(tmp_path),
        **GOOD | where,
    )
    with pytest.raises(SystemExit, match="states no block_size"):
        inside.handle_speculative_decoding(args)


@pytest.mark.parametrize("value", ["yes", "", "2"])
def test_another_value_of_the_variable(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_KIT_STRICT", value)
    with pytest.raises(SystemExit, match=f"DFLASH_KIT_STRICT: got '{value}', wanted 0 or 1"):
        handled(speculative_num_steps=3)


def test_a_refusal_of_a_scheduler_goes_through_its_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real scheduler process up to its Scheduler: no traceback, no signal."""
    from sglang.srt.speculative.dflash_strict import DFlashRefused

    def refuse(*_: Any) -> None:
        raise DFlashRefused("the reason")

    signals: list[int] = []
    parent = SimpleNamespace(send_signal=signals.append)
    monkeypatch.setattr(scheduler, "Scheduler", refuse)
    monkeypatch.setattr(scheduler, "load_plugins", lambda: None)
    monkeypatch.setattr(scheduler, "configure_scheduler_process", lambda *_, **__: None)
    monkeypatch.setattr(
        scheduler, "psutil", SimpleNamespace(Process=lambda: SimpleNamespace(parent=lambda: parent))
    )
    sent: list[Any] = []
    args = ServerArgs(model_path="dummy")
    inside.run_scheduler(args, SimpleNamespace(send=sent.append))
    assert sent == [{"status": "refused", "reason": "the reason"}]
    assert signals == []


def rank(word: dict[str, Any] | None, alive: bool) -> tuple[Any, Any]:
    """The pipe and the process of a scheduler that has said `word`, or nothing yet."""
    pipe = SimpleNamespace(poll=lambda timeout=0.0: word is not None, recv=lambda: word)
    return pipe, SimpleNamespace(is_alive=lambda: alive, join=lambda timeout: None, exitcode=-9)


REFUSED = {"status": "refused", "reason": "the reason"}


@pytest.mark.parametrize(
    "ranks",
    [
        [rank(REFUSED, False)],
        # One rank waits for another one that has refused.
        [rank(None, True), rank(REFUSED, False)],
    ],
    ids=["its-own", "of-another"],
)
def test_the_launcher_says_it_and_ends(ranks: list[tuple[Any, Any]]) -> None:
    pipes, processes = zip(*ranks, strict=True)
    with pytest.raises(SystemExit, match="^the reason$"):
        engine._wait_for_scheduler_ready(list(pipes), list(processes))


def test_a_scheduler_that_was_killed_is_told_as_before() -> None:
    pipes, processes = zip(rank(None, True), rank(None, False), strict=True)
    with pytest.raises(RuntimeError, match="Rank 1 scheduler died"):
        engine._wait_for_scheduler_ready(list(pipes), list(processes))


def test_a_refusal_is_no_exception_to_fall_back_on() -> None:
    strict_mode = sys.modules["sglang.srt.speculative.dflash_strict"]
    assert not issubclass(strict_mode.DFlashRefused, Exception)
