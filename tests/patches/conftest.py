"""One process against the sglang tree on PYTHONPATH, on a CPU, without a network."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch


def _stand_in_for_triton() -> None:
    """Let a tree without the optional-triton patch import where triton is missing.

    Otherwise every test of such a tree would fail for the same reason, its own unseen.
    """
    if importlib.util.find_spec("triton"):
        return
    # As the patch does: PyTorch must have looked for triton before the stub is there.
    importlib.import_module("torch._inductor.runtime.triton_compat")
    importlib.import_module("torch.utils._triton").has_triton_package()
    sglang = importlib.util.find_spec("sglang")
    assert sglang is not None and sglang.origin is not None, "sglang is not on PYTHONPATH"
    stub = importlib.util.spec_from_file_location(
        "_triton_stub", Path(sglang.origin).with_name("_triton_stub.py")
    )
    assert stub is not None and stub.loader is not None
    module = importlib.util.module_from_spec(stub)
    stub.loader.exec_module(module)
    module.install()


def _stand_in_for_sgl_kernel() -> bool:
    """Whether the tree needed a stand-in: for the same reason, without cpu-torch-native."""
    try:
        importlib.import_module("sglang.srt.mem_cache.memory_pool_host")
    except ModuleNotFoundError as error:
        if error.name != "sgl_kernel":
            raise
        sys.modules["sgl_kernel"] = sys.modules["sgl_kernel.kvcacheio"] = MagicMock()
        return True
    return False


_stand_in_for_triton()
_NEEDED_SGL_KERNEL = _stand_in_for_sgl_kernel()


@pytest.fixture(scope="session")
def needs_sgl_kernel() -> bool:
    return _NEEDED_SGL_KERNEL


@pytest.fixture(scope="session")
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The arguments and the parallel groups of a single rank, as the engine makes them."""
    from sglang.srt.distributed import parallel_state
    from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

    set_global_server_args_for_scheduler(ServerArgs(model_path="dummy"))

    store = tmp_path_factory.mktemp("rank") / "store"
    parallel_state.init_distributed_environment(
        world_size=1,
        rank=0,
        local_rank=0,
        backend="gloo",
        distributed_init_method=f"file://{store}",
    )
    parallel_state.initialize_model_parallel(backend="gloo")
    yield
    parallel_state.destroy_model_parallel()
    parallel_state.destroy_distributed_environment()


@pytest.fixture
def draft_pass(one_rank: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """run(forward, requests=, block_size=) -> the worker after one real draft pass.

    `forward` stands in for the draft runner's: it takes the ForwardBatch that the real
    worker built. The pass ends before the verify input, or where the worker of 0.5.11
    asks for hidden states that it has not. `host_lens` are the lengths that the host
    knows, `attributes` of the worker replace those of `_bare_worker`.
    """
    from sglang.srt.speculative import dflash_worker

    class Drafted(Exception):
        pass

    def verify_input(**_: Any) -> None:
        raise Drafted

    # A Triton kernel on the unpatched tree, and no part of what is looked at here.
    monkeypatch.setattr(dflash_worker, "assign_req_to_token_pool_func", lambda *_: None)
    monkeypatch.setattr(dflash_worker, "DFlashVerifyInput", verify_input)

    def run(
        forward: Callable[[Any], Any],
        requests: int = 2,
        block_size: int = 8,
        host_lens: tuple[int, ...] | None = None,
        **attributes: Any,
    ) -> Any:
        worker = _bare_worker(dflash_worker.DFlashWorker, forward, requests, block_size)
        vars(worker).update(attributes)
        prefix = torch.full((requests,), 5, dtype=torch.int32)
        batch = SimpleNamespace(
            forward_mode=dflash_worker.ForwardMode.DECODE,
            has_grammar=False,
            sampling_info=None,
            batch_size=lambda: requests,
            seq_lens=prefix,
            seq_lens_cpu=torch.tensor(host_lens or prefix.tolist()),
            req_pool_indices=torch.arange(1, requests + 1),
        )
        state = SimpleNamespace(
            verified_id=torch.zeros(requests, dtype=torch.int64),
            draft_seq_lens=prefix,
            block=None,
        )
        with pytest.raises((Drafted, RuntimeError), match="^$|no hidden states"):
            worker._prepare_for_speculative_decoding(batch, state)
        return worker

    return run


@pytest.fixture
def draft_batch(draft_pass: Callable[..., Any]) -> Callable[..., Any]:
    """build(requests=, block_size=) -> the ForwardBatch of one real draft pass."""

    def build(requests: int = 2, block_size: int = 8) -> Any:
        built: list[Any] = []

        def forward(batch: Any) -> Any:
            built.append(batch)
            return SimpleNamespace(
                logits_output=SimpleNamespace(hidden_states=None), can_run_graph=True
            )

        draft_pass(forward, requests=requests, block_size=block_size)
        return built[0]

    return build


@pytest.fixture
def graph_buffers() -> Callable[..., Any]:
    """make(max_bs=, block_size=) -> the real input buffers of a graph runner, on the CPU."""
    from sglang.srt.model_executor.cuda_graph_runner import DecodeInputBuffers

    def make(max_bs: int, block_size: int, is_hybrid_swa: bool = False) -> Any:
        return DecodeInputBuffers.create(
            device=torch.device("cpu"),
            max_bs=max_bs,
            max_num_token=max_bs * block_size,
            hidden_size=4,
            vocab_size=16,
            dtype=torch.float32,
            dp_size=1,
            pp_size=1,
            is_encoder_decoder=False,
            require_mlp_tp_gather=False,
            seq_len_fill_value=1,
            encoder_len_fill_value=0,
            num_tokens_per_bs=block_size,
            cache_loc_dtype=torch.int64,
            enable_mamba_track=False,
            is_hybrid_swa=is_hybrid_swa,
        )

    return make


@pytest.fixture
def decode_step() -> Callable[..., Any]:
    """run(verify_in_graph=) -> worker, batch and turns after one real decode step.

    The step of two requests goes over a target and a draft that only note their turn.
    """
    from sglang.srt.speculative import dflash_info, dflash_worker

    class Verify(dflash_info.DFlashVerifyInput):
        def __init__(self) -> None:
            self.positions = torch.zeros(2)

        def accept(self, *_: Any) -> Any:
            return torch.tensor([0, 1]), torch.tensor([7, 8])

        def commit(self, *_: Any) -> list[int]:
            return [0, 1]

    def run(verify_in_graph: bool = True) -> Any:
        turns: list[str] = []
        output = SimpleNamespace(
            logits_output=SimpleNamespace(hidden_states=torch.zeros(1)),
            can_run_cuda_graph=verify_in_graph,
        )
        worker: Any = object.__new__(dflash_worker.DFlashWorker)
        vars(worker).update(
            use_compact_draft_cache=False,
            page_size=1,
            tp_rank=0,
            verify_passes={"cuda_graph": 0, "eager": 0},
            _logged_first_verify=True,
            _draft_can_run_graph=True,
            target_worker=SimpleNamespace(
                forward_batch_generation=lambda *_, **__: output,
                model_runner=SimpleNamespace(attn_backend=None),
            ),
            _prepare_for_speculative_decoding=lambda *_: None,
            _append_hidden=lambda *_: turns.append("append"),
            _can_draft_ahead=lambda _: True,
            _draft_block=lambda *_: turns.append("draft") or "block",
            _fetch_rows=lambda *_: lambda: turns.append("wait"),
        )
        batch = SimpleNamespace(
            spec_info=dflash_info.DFlashDraftInput(
                verified_id=torch.tensor([1, 2]),
                target_hidden=torch.zeros(0, 4),
                ctx_lens=torch.zeros(2, dtype=torch.int32),
                draft_seq_lens=torch.tensor([1, 2], dtype=torch.int32),
            ),
            forward_mode=dflash_worker.ForwardMode.DECODE,
            is_extend_in_batch=False,
            seq_lens=torch.tensor([5, 6]),
            out_cache_loc=None,
            get_model_worker_batch=lambda: SimpleNamespace(
                forward_mode=dflash_worker.ForwardMode.TARGET_VERIFY, spec_info=Verify()
            ),
        )
        worker.forward_batch_generation(batch)
        return SimpleNamespace(worker=worker, batch=batch, turns=turns)

    return run


def _bare_worker(cls: type, forward: Callable[[Any], Any], requests: int, block_size: int) -> Any:
    """A DFlashWorker as __init__ leaves it, less the models and the KV pools."""
    allocator = SimpleNamespace(
        backup_state=lambda: None,
        restore_state=lambda state: None,
        alloc=lambda size: torch.arange(1, size + 1),
    )
    model = SimpleNamespace(
        get_input_embeddings=lambda: torch.nn.Embedding(16, 4),
        lm_head=SimpleNamespace(weight=None, shard_indices=None),
    )
    worker: Any = object.__new__(cls)
    vars(worker).update(
        server_args=SimpleNamespace(),
        device="cpu",
        page_size=1,
        block_size=block_size,
        tp_rank=0,
        draft_passes={"cuda_graph": 0, "eager": 0},
        use_compact_draft_cache=False,
        _block_needs_slots=True,
        _padding_slots=torch.zeros(requests * block_size, dtype=torch.int64),
        draft_model=SimpleNamespace(
            block_tokens=torch.zeros(requests * block_size, dtype=torch.int64)
        ),
        _mask_token_id=3,
        _draft_block_ids_buf=None,
        _draft_block_spec_info=None,
        _block_pos_offsets=torch.arange(block_size),
        _append_target_hidden_to_draft_kv=lambda batch, state: None,
        target_worker=SimpleNamespace(model_runner=SimpleNamespace(model=model)),
        draft_model_runner=SimpleNamespace(
            forward=forward,
            token_to_kv_pool_allocator=allocator,
            req_to_token_pool=SimpleNamespace(req_to_token=torch.zeros(requests + 1, 64)),
            token_to_kv_pool=None,
            attn_backend=None,
        ),
    )
    return worker
