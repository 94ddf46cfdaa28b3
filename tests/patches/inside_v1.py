"""The inside of an engine whose DFlash runs through worker v1, in step with the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.managers.scheduler import Scheduler, run_scheduler_process
from sglang.srt.managers.scheduler_output_processor_mixin import SchedulerOutputProcessorMixin
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor import forward_batch_info, pool_configurator
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.server_args import ServerArgs, get_global_server_args
from sglang.srt.speculative import dflash_utils, dflash_worker
from worker_v1 import (
    FALLBACKS,
    MISSING,
    broken,
    count_draft_pass,
    decode_step,
    draft_batch,
    draft_pass,
    first_steps,
    graph_buffers,
    no_fused_projection,
    start_worker,
    worker_with_layers,
)

__all__ = [
    "FALLBACKS",
    "MISSING",
    "broken",
    "count_draft_pass",
    "decode_step",
    "draft_batch",
    "draft_pass",
    "first_steps",
    "graph_buffers",
    "no_fused_projection",
    "start_worker",
    "worker_with_layers",
]

sampling_accept = dflash_utils.compute_dflash_sampling_accept_len_and_bonus

# Beside two-batch overlap: what makes every draft pass run outside its graph.
EAGER_DRAFT: list[tuple[dict[str, Any], str]] = [
    ({"moe_a2a_backend": "deepep"}, "--moe-a2a-backend: got deepep, wanted none"),
    ({"moe_dense_tp_size": 1}, "--moe-dense-tp-size: got 1, wanted none"),
]

# The arguments' values are given by nothing that a function of theirs would have to blank.
SERIALIZERS: tuple[str, ...] = ()
HANDED_ON: set[str] = set()


def process_decode(collector: Any, result: GenerationBatchResult, stop: Callable[[], None]) -> None:
    """The real processing of a decode result, up to `stop`, its first step after the metrics."""
    scheduler: Any = SimpleNamespace(
        num_generated_tokens=0,
        enable_metrics=True,
        metrics_collector=collector,
        update_spec_metrics=lambda *_: None,
        token_to_kv_pool_allocator=SimpleNamespace(free_group_begin=stop),
    )
    batch: Any = SimpleNamespace(
        reqs=[],
        batch_size=lambda: 0,
        is_spec_v2=False,
        spec_algorithm=SimpleNamespace(is_none=lambda: False),
    )
    SchedulerOutputProcessorMixin.process_batch_result_decode(scheduler, batch, result)


def scheduler(**counters: Any) -> Any:
    """What the real methods about internal states ask of a scheduler.

    `counters` are those of a DFlash worker; without them the scheduler has none.
    """
    cache, dflash = SimpleNamespace(mem_usage=0.0), bool(counters)
    return SimpleNamespace(
        last_gen_throughput=0.0,
        max_total_num_tokens=0,
        max_running_requests=8,
        pp_size=1,
        spec_total_num_forward_ct=0,
        spec_total_num_accepted_tokens=0,
        spec_algorithm=SimpleNamespace(is_none=lambda: not dflash, is_dflash=lambda: dflash),
        draft_worker=SimpleNamespace(**counters),
        token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: cache),
        tp_worker=SimpleNamespace(
            model_runner=SimpleNamespace(weight_load_mem_usage=0.0, graph_mem_usage=0.0)
        ),
    )


def internal_state(**counters: Any) -> dict[str, Any]:
    answer = Scheduler.get_internal_state(scheduler(**counters), None)
    return dict(answer.internal_state)


def manager(arguments: ServerArgs, **more: Any) -> Any:
    """A tokenizer manager as far as server information and dumps ask it."""

    async def states() -> list[dict[str, Any]]:
        return []

    return SimpleNamespace(server_args=arguments, get_internal_state=states, **more)


def expert_ranks(monkeypatch: pytest.MonkeyPatch, ranks: int) -> None:
    """This process is one of so many expert-parallel ranks."""
    monkeypatch.setattr(forward_batch_info, "get_moe_expert_parallel_world_size", lambda: ranks)
    monkeypatch.setattr(forward_batch_info, "get_attention_tp_rank", lambda: 0)
    monkeypatch.setattr(forward_batch_info, "get_attention_tp_size", lambda: 1)


def count_after(
    batch: Any, requests: int, block_size: int, expert_parallel: bool, gathered: bool, stale: int
) -> int:
    """The count in the real buffers of a graph after `batch` has entered them."""
    largest = 4
    buffers = graph_buffers()(max_bs=largest, block_size=block_size)
    buffers.num_token_non_padded.fill_(stale)
    buffers.populate_from_forward_batch(
        forward_batch=batch,
        raw_bs=requests,
        raw_num_token=requests * block_size,
        bs=largest,
        seq_len_fill_value=1,
        require_gathered_buffer=gathered,
        num_tokens_per_bs=block_size,
        nsa_enable_prefill_cp=False,
        enable_num_token_non_padded_flag=expert_parallel,
    )
    return int(buffers.num_token_non_padded)


def pool_owner(
    monkeypatch: pytest.MonkeyPatch, draft: Any, ranks: int, flag: str, dtype: torch.dtype
) -> Any:
    """A target of 61 MLA layers as the sizing of its pool asks for it."""
    monkeypatch.setattr(pool_configurator, "get_attention_tp_size", lambda: ranks)
    return SimpleNamespace(
        spec_algorithm=SimpleNamespace(is_dflash=lambda: True),
        is_draft_worker=False,
        server_args=SimpleNamespace(kv_cache_dtype=flag, swa_full_tokens_ratio=0.5),
        kv_cache_dtype=dtype,
        use_mla_backend=True,
        mambaish_config=None,
        num_effective_layers=61,
        model_config=SimpleNamespace(
            kv_lora_rank=512,
            qk_rope_head_dim=64,
            hf_config=SimpleNamespace(architectures=["DeepseekV3ForCausalLM"]),
        ),
        dflash_draft_model_config=draft,
        dflash_draft_num_layers=6,  # upstream's way to know the draft
    )


def without_dflash(owner: Any) -> None:
    owner.spec_algorithm = SimpleNamespace(is_dflash=lambda: False)


def graph_arguments(sizes: list[int], disabled: bool = False) -> dict[str, Any]:
    """Arguments with graphs of `sizes`, as they are when speculative decoding looks at them."""
    return {"cuda_graph_bs": sizes, "disable_cuda_graph": disabled}


def handle_speculative_decoding(args: ServerArgs) -> ServerArgs:
    args._handle_speculative_decoding()
    return args


def start_target(target: Any, args: ServerArgs) -> None:
    """The target's start, up to where it has read the draft's configuration."""

    def adjusted(self: ModelRunner) -> None:
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelRunner, "model_specific_adjustment", adjusted)
        ModelRunner(
            model_config=target,
            mem_fraction_static=0.5,
            gpu_id=0,
            tp_rank=0,
            tp_size=1,
            moe_ep_rank=0,
            moe_ep_size=1,
            pp_rank=0,
            pp_size=1,
            nccl_port=0,
            server_args=args,
        )


def verify_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    layer: Any,
    table: Any,
    pool: Any,
    **batch: Any,
) -> torch.Tensor:
    """torch_native's answer for a verify block."""
    from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode

    built = ForwardBatch(
        forward_mode=ForwardMode.TARGET_VERIFY,
        req_to_token_pool=table,
        token_to_kv_pool=pool,
        **batch,
    )
    backend = TorchNativeAttnBackend(SimpleNamespace(device="cpu"))
    result: torch.Tensor = backend.forward_extend(queries, keys, values, layer, built)
    return result


def draft_backend(monkeypatch: pytest.MonkeyPatch, _: Path, backend: str) -> str:
    """The attention backend of a draft on a CPU whose target has `backend`."""
    made: list[Any] = []

    def stop(server_args: Any, **_: Any) -> None:
        made.append(server_args)
        raise InterruptedError

    monkeypatch.setattr(dflash_worker, "TpModelWorker", stop)
    monkeypatch.setattr(dflash_worker, "get_global_server_args", lambda: None)
    arguments = SimpleNamespace(
        page_size=1,
        disable_cuda_graph=True,
        speculative_dflash_draft_window_size=None,
        speculative_draft_attention_backend=None,
        get_attention_backends=lambda: (backend, backend),
    )
    target = SimpleNamespace(
        device="cpu",
        get_memory_pool=lambda: (None, None),
        model_runner=SimpleNamespace(
            model_config=SimpleNamespace(context_len=64), memory_pool_config=None
        ),
    )
    with pytest.raises(InterruptedError):
        dflash_worker.DFlashWorker(
            server_args=arguments,
            gpu_id=0,
            tp_rank=0,
            dp_rank=None,
            moe_ep_rank=0,
            attn_cp_rank=0,
            moe_dp_rank=0,
            nccl_port=0,
            target_worker=target,
        )
    return str(made[0].attention_backend)


def live_arguments() -> ServerArgs:
    return get_global_server_args()


def run_scheduler(args: ServerArgs, pipe: Any) -> None:
    run_scheduler_process(args, None, *[0] * 6, None, pipe)


def watch(made: Any) -> None:
    """What the watchdog of a stopping engine asks besides: nothing."""


def routes(app: Any) -> Iterator[Any]:
    """The HTTP routes of the engine's application."""
    yield from app.routes
