"""The inside of an engine whose DFlash runs through worker v2, overlapped with the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from graphs_v2 import count_after, expert_ranks
from sglang.srt.arg_groups import speculative_hook
from sglang.srt.managers import tokenizer_manager
from sglang.srt.managers.scheduler import Scheduler, run_scheduler_process
from sglang.srt.managers.scheduler_components.batch_result_processor import (
    SchedulerBatchResultProcessor,
)
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache.allocation_sizing import get_req_to_token_extra_context_len
from sglang.srt.model_executor import pool_configurator
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode
from sglang.srt.model_executor.model_runner_components import spec_aux_hidden_state
from sglang.srt.server_args import (
    ServerArgs,
    get_global_server_args,
    set_global_server_args_for_scheduler,
)
from sglang.srt.speculative import dflash_utils, draft_worker_common
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from starlette.routing import WebSocketRoute
from worker_v2 import (
    FALLBACKS,
    MISSING,
    broken,
    count_draft_pass,
    decode_step,
    draft_batch,
    graph_arguments,
    no_fused_projection,
    start_worker,
    worker_with_layers,
)

__all__ = [
    "FALLBACKS",
    "MISSING",
    "broken",
    "count_after",
    "count_draft_pass",
    "decode_step",
    "draft_batch",
    "expert_ranks",
    "graph_arguments",
    "no_fused_projection",
    "start_worker",
    "worker_with_layers",
]

sampling_accept = dflash_utils.compute_dflash_sampling_correct_drafts_and_bonus

# Beside two-batch overlap: what makes every draft pass run outside its graph.
EAGER_DRAFT: list[tuple[dict[str, Any], str]] = [
    ({"moe_a2a_backend": "deepep"}, "--moe-a2a-backend: got deepep, wanted none"),
    ({"moe_dense_tp_size": 1}, "--moe-dense-tp-size: got 1, wanted none"),
]

# The arguments' values are given by nothing that a function of theirs would have to blank.
SERIALIZERS: tuple[str, ...] = ()
HANDED_ON: set[str] = set()


def process_decode(
    collector: Any, result: GenerationBatchResult, stop: Callable[[], None], **more: Any
) -> None:
    """The real processing of a decode result, up to `stop`, its first step after the metrics.

    more: what a later make asks besides.
    """
    set_global_server_args_for_scheduler(ServerArgs(model_path="dummy", enable_metrics=True))
    processor: Any = SimpleNamespace(
        metrics_collector=collector,
        metrics_reporter=SimpleNamespace(
            num_generated_tokens=0, update_spec_metrics=lambda *_, **__: None
        ),
        token_to_kv_pool_allocator=SimpleNamespace(free_group_begin=stop),
        _normalize_decode_outputs=lambda **_: ([], None),
        **more,
    )
    batch: Any = SimpleNamespace(
        reqs=[],
        batch_size=lambda: 0,
        spec_algorithm=SimpleNamespace(is_none=lambda: False),
    )
    SchedulerBatchResultProcessor.process_batch_result_decode(processor, batch, result)


def scheduler(**counters: Any) -> Any:
    """What the real methods about internal states ask of a scheduler.

    `counters` are those of a DFlash worker; without them the scheduler has none.
    """
    cache = SimpleNamespace(mem_usage=0.0)
    draft = SimpleNamespace(graph_memory_usage=None, **counters) if counters else None
    return SimpleNamespace(
        metrics_reporter=SimpleNamespace(
            last_gen_throughput=0.0, spec_total_num_forward_ct=0, spec_total_num_accept_tokens=0
        ),
        ps=SimpleNamespace(pp_size=1),
        max_total_num_tokens=0,
        max_running_requests=8,
        startup_available_gpu_memory_gb=0.0,
        startup_time={},
        swa_tokens_per_layer=None,
        spec_algorithm=SpeculativeAlgorithm.DFLASH if counters else SpeculativeAlgorithm.NONE,
        draft_worker=draft,
        token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: cache),
        tp_worker=SimpleNamespace(
            graph_memory_usage=None, model_runner=SimpleNamespace(weight_load_mem_usage=0.0)
        ),
    )


def internal_state(**counters: Any) -> dict[str, Any]:
    answer = Scheduler.get_internal_state(scheduler(**counters), None)
    return dict(answer.internal_state)


def manager(arguments: ServerArgs, **more: Any) -> Any:
    """A tokenizer manager as far as server information and dumps ask it."""

    async def states() -> list[dict[str, Any]]:
        return []

    made: Any = object.__new__(tokenizer_manager.TokenizerManager)
    vars(made).update(
        server_args=arguments,
        model_path=arguments.model_path,
        served_model_name=arguments.model_path,
        startup_time={},
        _config_updates=[],
        get_internal_state=states,
        **more,
    )
    return made


def pool_owner(
    monkeypatch: pytest.MonkeyPatch, draft: Any, ranks: int, flag: str, dtype: torch.dtype
) -> Any:
    """A target of 61 MLA layers as the sizing of its pool asks for it."""
    monkeypatch.setattr(
        pool_configurator, "get_parallel", lambda: SimpleNamespace(attn_tp_size=ranks)
    )
    for kind in ("mambaish_config", "is_deepseek_dsa", "is_minimax_sparse"):
        monkeypatch.setattr(pool_configurator, kind, lambda _: None)
    return SimpleNamespace(
        spec_algorithm=SpeculativeAlgorithm.DFLASH,
        is_draft_worker=False,
        server_args=SimpleNamespace(
            kv_cache_dtype=flag,
            swa_full_tokens_ratio=0.5,
            speculative_draft_attention_backend="triton",
            dcp_size=1,
            enable_hisparse=False,
            enable_dsa_cache_layer_split=False,
            max_total_tokens=None,
        ),
        kv_cache_dtype=dtype,
        kv_cache_dtype_str=flag,
        use_mla_backend=True,
        layer_info=SimpleNamespace(num_effective_layers=61, start_layer=0, end_layer=61),
        ps=SimpleNamespace(pp_size=1),
        sliding_window_size=128,
        page_size=1,
        model_config=SimpleNamespace(
            kv_lora_rank=512,
            qk_rope_head_dim=64,
            hf_config=SimpleNamespace(architectures=["DeepseekV3ForCausalLM"]),
            hf_text_config=SimpleNamespace(),
            context_len=4096,
        ),
        spec_aux_config=SimpleNamespace(
            dflash_draft_model_config=draft, dflash_draft_num_layers=draft.num_hidden_layers
        ),
    )


def without_dflash(owner: Any) -> None:
    owner.spec_algorithm = SpeculativeAlgorithm.NONE


def handle_speculative_decoding(args: ServerArgs) -> ServerArgs:
    speculative_hook._handle_dflash(args)
    return args


def start_target(target: Any, args: ServerArgs) -> None:
    """The target's start, up to where it has read the draft's configuration."""
    spec_aux_hidden_state.resolve_spec_aux_hidden_state_config(
        server_args=args,
        model_config=target,
        spec_algorithm=SpeculativeAlgorithm.DFLASH,
        is_draft_worker=False,
    )
    raise InterruptedError


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

    runner = SimpleNamespace(device="cpu", req_to_token_pool=table, token_to_kv_pool=pool)
    backend = TorchNativeAttnBackend(runner)
    built = ForwardBatch(forward_mode=ForwardMode.TARGET_VERIFY, **batch)
    result: torch.Tensor = backend.forward_extend(queries, keys, values, layer, built)
    return result


def draft_arguments(tmp_path: Path, backend: str) -> ServerArgs:
    """The arguments of an engine on a CPU whose target has `backend`."""
    return ServerArgs(
        model_path="dummy",
        device="cpu",
        attention_backend=backend,
        max_running_requests=4,
        speculative_algorithm="DFLASH",
        speculative_draft_model_path=str(tmp_path),
        speculative_num_draft_tokens=8,
    )


def draft_backend(_: pytest.MonkeyPatch, tmp_path: Path, backend: str) -> str:
    """The attention backend of a draft on a CPU whose target has `backend`."""
    args = draft_arguments(tmp_path, backend)
    handle_speculative_decoding(args)
    resolved = draft_worker_common._resolve_draft_attention_backend_fallback(
        draft_server_args=args, algo_label="DFLASH"
    )
    return str(resolved)


def watch(made: Any) -> None:
    """What the watchdog of a stopping engine asks besides."""
    made._subprocess_watchdog = None
    made._dispatch_to_scheduler = lambda _: None


def live_arguments() -> ServerArgs:
    return get_global_server_args()


def run_scheduler(args: ServerArgs, pipe: Any) -> None:
    run_scheduler_process(args, None, *[0] * 6, None, pipe)


def row_room(args: ServerArgs) -> int:
    """How much wider than the context a request's row is."""
    return get_req_to_token_extra_context_len(args)


def request(committed: int) -> Any:
    """A request that has so many tokens, as the reserve of its next step asks for it."""
    return SimpleNamespace(
        kv_committed_len=committed,
        kv=SimpleNamespace(kv_allocated_len=committed),
        sampling_params=SimpleNamespace(top_k=1),
    )


def routes(app: Any) -> Iterator[Any]:
    """The HTTP routes of the engine's application, with those of included routers."""
    for route in app.routes:
        if included := getattr(route, "original_router", None):
            yield from routes(included)
        elif not isinstance(route, WebSocketRoute):  # of those websocket-needs-key takes care
            yield route
