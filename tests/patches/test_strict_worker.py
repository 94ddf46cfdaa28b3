"""In strict mode the worker has every part of DFlash, or there is no start."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang.srt.speculative import dflash_worker

WITHOUT = r"DID NOT RAISE <class 'SystemExit'>"

BLOCK, VOCABULARY = 8, 768


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_KIT_STRICT", "1")


@pytest.fixture
def loose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DFLASH_KIT_STRICT", raising=False)


def model() -> Any:
    """What the worker asks of a target and of a draft, without layers."""
    return SimpleNamespace(
        lm_head=SimpleNamespace(weight=None, shard_indices=None),
        get_input_embeddings=lambda: None,
        attach_target=lambda **_: None,
        block_size=BLOCK,
        block_tokens=torch.zeros(BLOCK),
        layers=[],
    )


def model_runner(graphs: bool) -> Any:
    settings = {"mask_token_id": 3, "target_layer_ids": [0]}
    return SimpleNamespace(
        model=model(),
        graph_runner="graphs" if graphs else None,
        init_device_graphs=lambda: None,
        memory_pool_config=None,
        attn_backend=None,
        req_to_token_pool=SimpleNamespace(size=4),
        model_config=SimpleNamespace(
            context_len=2048,
            vocab_size=VOCABULARY,
            hf_config=SimpleNamespace(block_size=BLOCK, dflash_config=settings),
        ),
    )


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The real worker's start over models without layers; `used` has the draft's arguments."""
    monkeypatch.setattr(dflash_worker, "is_dflash_sampling_verify_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "Event", lambda: None)

    def make(
        backend: str = "triton", cuda: bool = False, target: bool = True, draft: bool = True
    ) -> Any:
        used: dict[str, Any] = {}

        def tp_worker(**given: Any) -> Any:
            used.update(given)
            return SimpleNamespace(model_runner=model_runner(draft))

        monkeypatch.setattr(dflash_worker, "TpModelWorker", tp_worker)
        monkeypatch.setattr(dflash_worker, "is_cuda", lambda: cuda)
        args = ServerArgs(
            model_path="dummy",
            attention_backend=backend,
            speculative_algorithm="DFLASH",
            speculative_num_draft_tokens=BLOCK,
        )
        set_global_server_args_for_scheduler(args)
        target_worker = SimpleNamespace(
            model_runner=model_runner(target),
            device="cpu",
            tokenizer=None,
            get_memory_pool=lambda: (None, None),
        )
        worker = dflash_worker.DFlashWorker(args, 0, 0, None, 0, 0, 0, 0, target_worker)
        return SimpleNamespace(worker=worker, used=used)

    return make


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(SystemExit) as ended:
        act()
    text = str(ended.value.code)
    assert text.startswith("DFlash refused (DFLASH_KIT_STRICT=1): ") and "\n" not in text
    return text


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("backend", ["flashinfer", "fa3", "triton", "torch_native"])
def test_a_backend_that_the_draft_can_use(start: Callable[..., Any], backend: str) -> None:
    assert start(backend).used["server_args"].attention_backend == backend


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("backend", ["trtllm_mha", "trtllm_mla", "cutlass_mla"])
def test_another_backend_is_refused(start: Callable[..., Any], backend: str) -> None:
    text = refusal(lambda: start(backend))
    assert f"got {backend}" in text and "--speculative-draft-attention-backend" in text


@pytest.mark.usefixtures("loose")
@pytest.mark.parametrize("backend", ["trtllm_mha", "trtllm_mla"])
def test_without_strict_mode_it_is_replaced(start: Callable[..., Any], backend: str) -> None:
    assert start(backend).used["server_args"].attention_backend == "flashinfer"


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    ("missing", "named"),
    [("target", "the target's verify pass has no"), ("draft", "the draft has")],
)
def test_a_pass_without_graphs_is_refused(
    start: Callable[..., Any], missing: str, named: str
) -> None:
    assert named in refusal(lambda: start(cuda=True, **{missing: False}))


@pytest.mark.usefixtures("strict")
def test_greedy_verification_of_samples_is_refused(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dflash_worker, "is_dflash_sampling_verify_available", lambda: False)
    text = refusal(lambda: start(cuda=True, draft=False))
    assert "sampling kernels" in text and "the draft has no CUDA graphs" in text


@pytest.mark.usefixtures("strict")
def test_a_cpu_misses_nothing(start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dflash_worker, "is_dflash_sampling_verify_available", lambda: False)
    worker = start(target=False, draft=False).worker
    assert worker.verify_passes == {"cuda_graph": 0, "eager": 0}


@pytest.mark.usefixtures("strict")
def test_fused_keys_and_values_that_are_disabled(start: Callable[..., Any]) -> None:
    assert "disabled: no layers found" in refusal(lambda: start(cuda=True))


@pytest.mark.usefixtures("loose")
def test_without_strict_mode_the_slow_path_serves(start: Callable[..., Any]) -> None:
    assert start(cuda=True, target=False, draft=False).worker._use_fused_kv_materialize is False


def bare_worker(layers: list[Any]) -> Any:
    worker: Any = object.__new__(dflash_worker.DFlashWorker)
    vars(worker).update(
        tp_rank=0,
        draft_model=SimpleNamespace(layers=layers, project_target_hidden=lambda hidden: hidden),
        draft_model_runner=None,
        _use_fused_kv_materialize=True,
        _fused_kv_helper="helper",
    )
    return worker


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("no\nkernel")


@pytest.mark.usefixtures("strict")
def test_fused_keys_and_values_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dflash_worker, "can_dflash_use_fused_qkv_proj", broken)
    layer = SimpleNamespace(self_attn=SimpleNamespace(qkv_proj=None))
    assert "cannot start: no kernel" in refusal(bare_worker([layer])._init_fused_kv_helper)


def append(worker: Any) -> list[str]:
    """The real append with a fused kernel that fails; who wrote instead."""
    wrote: list[str] = []
    worker._append_target_hidden_fused = broken
    worker._append_target_hidden_sequential = lambda *_: wrote.append("sequential")
    worker._append_hidden(torch.zeros(1), torch.zeros(1), torch.zeros(1))
    return wrote


@pytest.mark.usefixtures("strict")
def test_a_kernel_that_fails_later_ends_the_engine() -> None:
    with pytest.raises(RuntimeError, match="kernel"):
        append(bare_worker([]))


@pytest.mark.usefixtures("loose")
def test_without_strict_mode_the_slow_path_takes_over() -> None:
    worker = bare_worker([])
    assert append(worker) == ["sequential"]
    assert worker._use_fused_kv_materialize is False


class Tokenizer:
    """One that knows the mask token by an id beyond the target's vocabulary."""

    mask_token = "[MASK]"
    mask_token_id = VOCABULARY

    def get_vocab(self) -> dict[str, int]:
        return {self.mask_token: self.mask_token_id}


@pytest.mark.parametrize("mode", ["1", "0"])
def test_a_mask_token_beyond_the_vocabulary(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_KIT_STRICT", mode)
    worker = bare_worker([])
    worker.target_worker = SimpleNamespace(model_runner=model_runner(True), tokenizer=Tokenizer())
    with pytest.raises(SystemExit if mode == "1" else ValueError, match=str(VOCABULARY)):
        worker._resolve_mask_token_id(mask_token="[MASK]")
