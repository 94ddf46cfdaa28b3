"""In strict mode the worker has every part of DFlash, or there is no start."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from inside import inside

WITHOUT = r"DID NOT RAISE (<class ')?SystemExit"

BEYOND = 10_000  # the vocabularies of these targets

pytestmark = pytest.mark.usefixtures("one_rank")


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_KIT_STRICT", "1")


@pytest.fixture
def loose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DFLASH_KIT_STRICT", raising=False)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, str]]:
    """start(backend, ...) -> the worker and its draft's attention backend."""
    return lambda *given, **more: inside.start_worker(monkeypatch, *given, **more)


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(SystemExit) as ended:
        act()
    text = str(ended.value.code)
    assert text.startswith("DFlash refused (DFLASH_KIT_STRICT=1): ") and "\n" not in text
    return text


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("backend", ["flashinfer", "fa3", "triton", "torch_native"])
def test_a_backend_that_the_draft_can_use(start: Callable[..., Any], backend: str) -> None:
    assert start(backend)[1] == backend


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("backend", ["trtllm_mha", "trtllm_mla", "cutlass_mla"])
def test_another_backend_is_refused(start: Callable[..., Any], backend: str) -> None:
    text = refusal(lambda: start(backend))
    assert f"got {backend}" in text and "--speculative-draft-attention-backend" in text


@pytest.mark.usefixtures("loose")
@pytest.mark.parametrize("backend", ["trtllm_mha", "trtllm_mla"])
def test_without_strict_mode_it_is_replaced(start: Callable[..., Any], backend: str) -> None:
    assert start(backend)[1] == "flashinfer"


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("part", inside.MISSING)
def test_a_missing_part_is_refused(start: Callable[..., Any], part: str) -> None:
    lacking, named = inside.MISSING[part]
    assert named in refusal(lambda: start(cuda=True, **lacking))


@pytest.mark.usefixtures("loose")
@pytest.mark.parametrize("part", inside.MISSING)
def test_without_strict_mode_it_starts(start: Callable[..., Any], part: str) -> None:
    lacking, _ = inside.MISSING[part]
    assert start(cuda=True, **lacking)


@pytest.mark.usefixtures("strict")
def test_greedy_verification_of_samples_is_refused(start: Callable[..., Any]) -> None:
    text = refusal(lambda: start(cuda=True, draft=False, sampling=False))
    assert "sampling kernels" in text and "the draft has no CUDA graphs" in text


@pytest.mark.usefixtures("strict")
def test_a_whole_start_on_a_gpu(start: Callable[..., Any]) -> None:
    worker, _ = start(cuda=True)
    assert worker.verify_passes == {"cuda_graph": 0, "eager": 0}


@pytest.mark.usefixtures("strict")
def test_a_cpu_misses_nothing(start: Callable[..., Any]) -> None:
    worker, _ = start(target=False, draft=False, sampling=False)
    assert worker.verify_passes == {"cuda_graph": 0, "eager": 0}


@pytest.mark.usefixtures("strict")
def test_fused_keys_and_values_that_are_disabled(start: Callable[..., Any]) -> None:
    assert "disabled: no layers found" in refusal(lambda: start(cuda=True, fused=True))


@pytest.mark.usefixtures("loose")
def test_without_strict_mode_the_slow_path_serves(start: Callable[..., Any]) -> None:
    worker, _ = start(cuda=True, target=False, draft=False, fused=True)
    assert worker._use_fused_kv_materialize is False


@pytest.mark.usefixtures("strict")
def test_fused_keys_and_values_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    inside.no_fused_projection(monkeypatch)
    layer = SimpleNamespace(self_attn=SimpleNamespace(qkv_proj=None))
    worker = inside.worker_with_layers([layer])
    assert "cannot start: no kernel" in refusal(worker._init_fused_kv_helper)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("kernel", inside.FALLBACKS)
def test_a_kernel_that_fails_later_ends_the_engine(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError, match="kernel"):
        inside.FALLBACKS[kernel](monkeypatch)


@pytest.mark.usefixtures("loose")
@pytest.mark.parametrize("kernel", inside.FALLBACKS)
def test_without_strict_mode_the_slow_path_takes_over(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inside.FALLBACKS[kernel](monkeypatch)


class Tokenizer:
    """One that knows the mask token by an id beyond the target's vocabulary."""

    mask_token = "[MASK]"
    mask_token_id = BEYOND

    def get_vocab(self) -> dict[str, int]:
        return {self.mask_token: self.mask_token_id}


@pytest.mark.parametrize("mode", ["1", "0"])
def test_a_mask_token_beyond_the_vocabulary(
    start: Callable[..., Any], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, _ = start()
    monkeypatch.setenv("DFLASH_KIT_STRICT", mode)
    worker.target_worker.tokenizer = Tokenizer()
    with pytest.raises(SystemExit if mode == "1" else ValueError, match=str(BEYOND)):
        worker._resolve_mask_token_id(mask_token="[MASK]")
