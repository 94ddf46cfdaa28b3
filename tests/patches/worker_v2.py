"""Stand-ins for what surrounds worker v2, and its real passes over them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.arg_groups import speculative_hook
from sglang.srt.model_executor.cuda_graph_config import Backend, default_cuda_graph_config
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang.srt.speculative import dflash_worker_v2, draft_worker_common
from sglang.srt.utils import hf_transformers_utils

VOCABULARY = 16


# worker(requests, block_size, **attributes), or that of a later make.
Make = Callable[..., Any]


class Drafted(Exception):
    """The draft's pass is over, and the target's begins."""


def worker(requests: int, block_size: int, **attributes: Any) -> Any:
    """A DFlashWorkerV2 as __init__ leaves it, less the models and the KV pools."""
    made: Any = object.__new__(dflash_worker_v2.DFlashWorkerV2)
    model = SimpleNamespace(
        get_input_embeddings=lambda: torch.nn.Embedding(VOCABULARY, 4),
        lm_head=SimpleNamespace(weight=torch.zeros(VOCABULARY, 4)),
    )
    table = SimpleNamespace(
        req_to_token=torch.arange((requests + 1) * 64).view(requests + 1, 64).int()
    )
    target = SimpleNamespace(model=model, req_to_token_pool=table)
    vars(made).update(
        device=torch.device("cpu"),
        ps=SimpleNamespace(tp_rank=0),
        page_size=1,
        block_size=block_size,
        draft_passes={"cuda_graph": 0, "eager": 0},
        verify_passes={"cuda_graph": 0, "eager": 0},
        use_compact_draft_cache=False,
        model_runner=target,
        _target_worker=SimpleNamespace(model_runner=target),
        _draft_sampler=None,
        _mask_token_id=3,
        _need_mamba_verify_commit=False,
        _block_pos_offsets=torch.arange(block_size),
        _draft_block_ids_buf=None,
        _draft_block_spec_info=None,
        _use_triton_prepare_block=False,
        _use_triton_accept_bonus=False,
        _append_target_hidden_to_draft_kv_by_loc=lambda **_: None,
        _greedy_sample_from_vocab_parallel_head=lambda hidden_states, lm_head: torch.zeros(
            len(hidden_states), dtype=torch.int64
        ),
    )
    vars(made).update(attributes)
    return made


def decode_batch(requests: int) -> Any:
    lengths = torch.full((requests,), 5)
    return SimpleNamespace(
        forward_mode=ForwardMode.DECODE,
        is_extend_in_batch=False,
        has_grammar=False,
        sampling_info=None,
        return_logprob=False,
        reqs=[],
        spec_info=draft_worker_common.make_draft_input_v2(
            bonus_tokens=torch.zeros(requests, dtype=torch.int64), new_seq_lens=lengths
        ),
        seq_lens=lengths,
        seq_lens_cpu=lengths.clone(),
        seq_lens_sum=int(lengths.sum()),
        req_pool_indices=torch.arange(1, requests + 1),
        can_run_decode_cuda_graph=True,
    )


def draft_output(in_graph: bool, tokens: int) -> Any:
    hidden = torch.zeros(tokens, 4)
    return SimpleNamespace(
        logits_output=SimpleNamespace(hidden_states=hidden), can_run_graph=in_graph
    )


def draft_batch(_: pytest.MonkeyPatch, requests: int, block_size: int, make: Make = worker) -> Any:
    """The ForwardBatch of one real draft pass of the worker that `make` makes."""
    built: list[Any] = []

    def forward(batch: Any) -> Any:
        built.append(batch)
        raise Drafted

    runner = SimpleNamespace(forward=forward, kv_index_translator=None)
    made = make(requests, block_size, draft_model_runner=runner)
    with pytest.raises(Drafted):
        made.forward_batch_generation(decode_batch(requests))
    return built[0]


def decode_step(
    verify_in_graph: bool = True,
    draft_in_graph: bool = True,
    make: Make = worker,
    **attributes: Any,
) -> tuple[Any, Any]:
    """The worker that `make` makes and the result of one real decode step of two requests."""
    requests, block = 2, 4

    class Verify:
        def __init__(self, **_: Any) -> None:
            pass

        def prepare_for_verify(self, *_: Any, **__: Any) -> tuple[None, None]:
            return None, None

    def verified(**_: Any) -> Any:
        logits = SimpleNamespace(
            hidden_states=torch.zeros(requests * block, 4),
            next_token_logits=torch.zeros(requests * block, VOCABULARY),
        )
        return SimpleNamespace(
            logits_output=logits,
            can_run_cuda_graph=verify_in_graph,
            routed_experts_output=None,
            indexer_topk_output=None,
        )

    drafted = draft_output(draft_in_graph, requests * block)
    runner = SimpleNamespace(forward=lambda _: drafted, kv_index_translator=None)
    made = make(requests, block, draft_model_runner=runner, **attributes)
    made._target_worker.forward_batch_generation = verified
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dflash_worker_v2, "DFlashVerifyInput", Verify)
        result = made.forward_batch_generation(decode_batch(requests))
    return made, result


def count_draft_pass(_: pytest.MonkeyPatch, in_graph: bool) -> tuple[dict[str, int], bool | None]:
    """The worker's counters after one draft pass, and what is handed on to the metrics."""
    made, result = decode_step(draft_in_graph=in_graph)
    return made.draft_passes, result.draft_can_run_cuda_graph


def graph_arguments(sizes: list[int], disabled: bool = False) -> dict[str, Any]:
    """Arguments with graphs of `sizes`, as they are when speculative decoding looks at them."""
    config = default_cuda_graph_config()
    config.decode.bs, config.decode.max_bs = sizes, max(sizes)
    if disabled:
        config.decode.backend = Backend.DISABLED
    return {"cuda_graph_config": config}


def _model_runner(graphs: bool) -> Any:
    settings = {"mask_token_id": 3, "target_layer_ids": [0]}
    return SimpleNamespace(
        model=SimpleNamespace(
            lm_head=SimpleNamespace(weight=torch.zeros(VOCABULARY, 4)), layers=[], block_size=8
        ),
        decode_cuda_graph_runner="graphs" if graphs else None,
        capture_tail_hooks=[],
        model_config=SimpleNamespace(
            context_len=2048,
            vocab_size=VOCABULARY,
            hf_config=SimpleNamespace(block_size=8, dflash_config=settings),
        ),
    )


def start_arguments(monkeypatch: pytest.MonkeyPatch, backend: str) -> ServerArgs:
    """The arguments of a start on a GPU, as speculative decoding leaves them."""
    config = SimpleNamespace(num_hidden_layers=2)
    monkeypatch.setattr(hf_transformers_utils, "get_config", lambda *_, **__: config)
    args = ServerArgs(
        model_path="dummy",
        device="cuda",
        attention_backend=backend,
        max_running_requests=4,
        speculative_algorithm="DFLASH",
        speculative_draft_model_path="/draft",
        speculative_num_draft_tokens=8,
        **graph_arguments([1, 2, 4]),
    )
    speculative_hook._handle_dflash(args)
    return args


def start_worker(
    monkeypatch: pytest.MonkeyPatch,
    backend: str = "triton",
    cuda: bool = False,
    target: bool = True,
    draft: bool = True,
    sampling: bool = True,
    fused: bool = False,
    free_gb: float = 10.0,
    head: torch.dtype = torch.float32,
) -> tuple[Any, str]:
    """The real worker's start over models without layers, and its draft's attention backend.

    target, draft: whether there are graphs of their passes. sampling: whether the sampling
    kernels can be imported. fused: whether it looks for the kernel of the draft's keys and
    values. free_gb: the GPU's free memory. head: the type of the target's head.
    """
    args = start_arguments(monkeypatch, backend)
    set_global_server_args_for_scheduler(args)
    runner = _model_runner(draft)
    bundle = SimpleNamespace(
        draft_worker=SimpleNamespace(init_cuda_graphs=lambda **_: None),
        draft_model_runner=runner,
        draft_model=runner.model,
        resolved_attention_backend=args.speculative_draft_attention_backend,
    )
    for name, value in (
        ("build_draft_tp_worker", lambda **_: bundle),
        ("replace", lambda ps, **_: ps),
        ("is_cuda", lambda: cuda),
        ("is_hip", lambda: False),
        ("is_dflash_sampling_verify_available", lambda: sampling),
        ("get_available_gpu_memory", lambda *_: free_gb),
    ):
        monkeypatch.setattr(dflash_worker_v2, name, value)
    made = dflash_worker_v2.DFlashWorkerV2
    if not fused:
        monkeypatch.setattr(made, "_init_fused_kv_helper", lambda _: None)
    target_runner = _model_runner(target)
    target_runner.model.lm_head.weight = torch.zeros(VOCABULARY, 4).to(head)
    target_worker = SimpleNamespace(model_runner=target_runner, device="cpu", tokenizer=None)
    built = made(args, 0, SimpleNamespace(tp_rank=0), 0, target_worker)
    built.init_cuda_graphs()
    return built, str(args.speculative_draft_attention_backend)


# Parts that a start on a GPU may lack: how, and what the refusal says.
MISSING: dict[str, tuple[dict[str, Any], str]] = {
    "verify": ({"target": False}, "the target's verify pass has no"),
    "draft": ({"draft": False}, "the draft has"),
    "memory": ({"free_gb": 0.5}, "0.50 GB of the GPU are free, wanted 1"),
    "head": ({"head": torch.int8}, "picked outside its graph: quantized lm_head"),
}


def broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("no\nkernel")


def worker_with_layers(layers: list[Any], make: Make = worker) -> Any:
    """A worker about to look for the kernel of its draft's keys and values."""
    draft = SimpleNamespace(
        layers=layers,
        project_target_hidden=lambda hidden: hidden,
        candidate_selector=None,
        lilicorr=None,
    )
    return make(2, 4, draft_model=draft, _use_fused_kv_materialize=True, _fused_kv_helper="helper")


def no_fused_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dflash_worker_v2, "can_dflash_use_fused_qkv_proj", broken)


def append(made: Any, by_prefix: bool) -> bool:
    """Whether `made` writes its draft's keys and values when its kernel for them is broken."""
    del made._append_target_hidden_to_draft_kv_by_loc  # the real one
    made._append_target_hidden_fused = broken
    made.model_runner.device = torch.device("cpu")
    slots = torch.zeros(2, dtype=torch.int64)
    given: dict[str, Any] = {}
    if by_prefix:
        given = {
            "cache_loc_2d": slots.view(1, 2),
            "commit_lens": torch.ones(1, dtype=torch.int32),
        }
    made._append_target_hidden_to_draft_kv_by_loc(
        target_hidden=torch.zeros(2, 4), cache_loc=slots, positions=slots, **given
    )
    return not made._use_fused_kv_materialize


def fallbacks(make: Make) -> dict[str, Callable[[pytest.MonkeyPatch], bool]]:
    """Kernels that fail at a later step: whether the slow path has taken over."""

    def step(monkeypatch: pytest.MonkeyPatch, kernel: str, flag: str) -> bool:
        monkeypatch.setattr(dflash_worker_v2, kernel, broken)
        more = {"_accept_bonus_buffer_cap": 0, "_accept_bonus_buffer_slot": 0}
        made, _ = decode_step(make=make, **{flag: True}, **more)
        return not getattr(made, flag)

    return {
        "append": lambda _: append(worker_with_layers([], make), by_prefix=False),
        "append-prefix": lambda _: append(worker_with_layers([], make), by_prefix=True),
        "prepare-block": lambda patch: step(
            patch, "_prepare_dflash_draft_block_unchecked", "_use_triton_prepare_block"
        ),
        "accept-bonus": lambda patch: step(
            patch, "_compute_dflash_accept_bonus_triton_unchecked", "_use_triton_accept_bonus"
        ),
    }


FALLBACKS = fallbacks(worker)
