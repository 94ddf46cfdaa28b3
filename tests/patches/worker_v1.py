"""Stand-ins for what surrounds worker v1, and its real passes over them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.model_executor.cuda_graph_runner import DecodeInputBuffers
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang.srt.speculative import dflash_info, dflash_worker

BLOCK, VOCABULARY = 8, 768


def draft_pass(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """run(forward, requests=, block_size=) -> the worker after one real draft pass.

    `forward` stands in for the draft runner's: it takes the ForwardBatch that the real
    worker built. The pass ends before the verify input, or where the worker of 0.5.11
    asks for hidden states that it has not. `host_lens` are the lengths that the host
    knows, `attributes` of the worker replace those of `_bare_worker`.
    """

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


def graph_buffers() -> Callable[..., Any]:
    """make(max_bs=, block_size=) -> the real input buffers of a graph runner, on the CPU."""

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


def first_steps() -> Callable[..., Any]:
    """run(verify_in_graph=) -> worker, batch and turns after one real decode step.

    The step of two requests goes over a target and a draft that only note their turn.
    """

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


def draft_batch(monkeypatch: pytest.MonkeyPatch, requests: int, block_size: int) -> Any:
    """The ForwardBatch of one real draft pass."""
    built: list[Any] = []

    def forward(batch: Any) -> Any:
        built.append(batch)
        return SimpleNamespace(
            logits_output=SimpleNamespace(hidden_states=None), can_run_graph=True
        )

    draft_pass(monkeypatch)(forward, requests=requests, block_size=block_size)
    return built[0]


def decode_step(verify_in_graph: bool = True) -> tuple[Any, None]:
    """The worker after one real decode step of two requests."""
    return first_steps()(verify_in_graph=verify_in_graph).worker, None


def count_draft_pass(
    monkeypatch: pytest.MonkeyPatch, in_graph: bool
) -> tuple[dict[str, int], bool | None]:
    """The worker's counters after one draft pass, and what is handed on to the metrics."""
    output = SimpleNamespace(
        logits_output=SimpleNamespace(hidden_states=None), can_run_graph=in_graph
    )
    worker = draft_pass(monkeypatch)(lambda batch: output)
    return worker.draft_passes, worker._draft_can_run_graph


def _model() -> Any:
    """What the worker asks of a target and of a draft, without layers."""
    return SimpleNamespace(
        lm_head=SimpleNamespace(weight=None, shard_indices=None),
        get_input_embeddings=lambda: None,
        attach_target=lambda **_: None,
        block_size=BLOCK,
        block_tokens=torch.zeros(BLOCK),
        layers=[],
    )


def _model_runner(graphs: bool) -> Any:
    settings = {"mask_token_id": 3, "target_layer_ids": [0]}
    return SimpleNamespace(
        model=_model(),
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


def start_worker(
    monkeypatch: pytest.MonkeyPatch,
    backend: str = "triton",
    cuda: bool = False,
    target: bool = True,
    draft: bool = True,
    sampling: bool = True,
    fused: bool = False,
) -> tuple[Any, str]:
    """The real worker's start over models without layers, and its draft's attention backend.

    target, draft: whether there are graphs of their passes. sampling: whether the sampling
    kernels can be imported. fused: whether it looks for the kernel of the draft's keys and
    values.
    """
    used: dict[str, Any] = {}

    def tp_worker(**given: Any) -> Any:
        used.update(given)
        return SimpleNamespace(model_runner=_model_runner(draft))

    for name, value in (
        ("TpModelWorker", tp_worker),
        ("is_cuda", lambda: cuda),
        ("is_dflash_sampling_verify_available", lambda: sampling),
    ):
        monkeypatch.setattr(dflash_worker, name, value)
    monkeypatch.setattr(torch.cuda, "Event", lambda: None)
    made = dflash_worker.DFlashWorker
    if not fused:
        monkeypatch.setattr(made, "_init_fused_kv_helper", lambda _: None)
    args = ServerArgs(
        model_path="dummy",
        attention_backend=backend,
        speculative_algorithm="DFLASH",
        speculative_num_draft_tokens=BLOCK,
    )
    set_global_server_args_for_scheduler(args)
    target_worker = SimpleNamespace(
        model_runner=_model_runner(target),
        device="cpu",
        tokenizer=None,
        get_memory_pool=lambda: (None, None),
    )
    worker = made(args, 0, 0, None, 0, 0, 0, 0, target_worker)
    return worker, str(used["server_args"].attention_backend)


# Parts that a start on a GPU may lack: how, and what the refusal says.
MISSING: dict[str, tuple[dict[str, Any], str]] = {
    "verify": ({"target": False}, "the target's verify pass has no"),
    "draft": ({"draft": False}, "the draft has"),
}


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("no\nkernel")


def worker_with_layers(layers: list[Any]) -> Any:
    """A worker about to look for the kernel of its draft's keys and values."""
    worker: Any = object.__new__(dflash_worker.DFlashWorker)
    vars(worker).update(
        tp_rank=0,
        draft_model=SimpleNamespace(layers=layers, project_target_hidden=lambda hidden: hidden),
        draft_model_runner=None,
        _use_fused_kv_materialize=True,
        _fused_kv_helper="helper",
    )
    return worker


def no_fused_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dflash_worker, "can_dflash_use_fused_qkv_proj", broken)


def _append(_: pytest.MonkeyPatch) -> bool:
    worker, wrote = worker_with_layers([]), []
    worker._append_target_hidden_fused = broken
    worker._append_target_hidden_sequential = lambda *_: wrote.append("sequential")
    worker._append_hidden(torch.zeros(1), torch.zeros(1), torch.zeros(1))
    return wrote == ["sequential"] and not worker._use_fused_kv_materialize


# Kernels that fail at a later step: whether the slow path has taken over.
FALLBACKS: dict[str, Callable[[pytest.MonkeyPatch], bool]] = {"append": _append}
