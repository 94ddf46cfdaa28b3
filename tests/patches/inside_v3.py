"""The inside of an engine that resolves its arguments into configuration bags; worker v2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import inside_v2
import pytest
from inside_v2 import manager, routes, sampling_accept, verify_attention
from sglang.srt.arg_groups import speculative_hook
from sglang.srt.arg_groups.overrides import resolving_view
from sglang.srt.managers.scheduler import Scheduler, run_scheduler_process
from sglang.srt.managers.scheduler_components.internal_state import SchedulerInternalStateController
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache.allocation_sizing import get_req_to_token_extra_context_len
from sglang.srt.model_executor.model_runner_components import spec_aux_hidden_state
from sglang.srt.runtime_context import get_server_args
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang.srt.speculative import draft_worker_common
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from worker_v3 import (
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
    "count_draft_pass",
    "decode_step",
    "draft_batch",
    "graph_arguments",
    "manager",
    "no_fused_projection",
    "routes",
    "sampling_accept",
    "start_worker",
    "verify_attention",
    "worker_with_layers",
]

# Beside two-batch overlap: its draft has no graph, and says so in a warning only.
EAGER_DRAFT: list[tuple[dict[str, Any], str]] = [
    ({"attn_dp_size": 2, "tp_size": 2, "enable_dp_lm_head": True}, "attention data parallelism")
]

# What gives the arguments as plain values, keys included, and where that is only handed on.
SERIALIZERS = (
    "resolved_dict",
    "resolved_server_args_dict",
    "resolved_config_dict",
    "build_server_info",
)
HANDED_ON = {
    "d = self.server_args.resolved_dict() if base is None else dict(base)",
    "resolved = get_context().resolved_server_args_dict(base)",
    "result = server_args.resolved_dict()",
}


def process_decode(collector: Any, result: GenerationBatchResult, stop: Callable[[], None]) -> None:
    inside_v2.process_decode(
        collector,
        result,
        stop,
        snapshot_auxiliary_output_starts=lambda *_: None,
        materialize_sampling_mask_output=lambda *_: None,
    )


def scheduler(**counters: Any) -> Any:
    """What the real methods about internal states ask of a scheduler.

    `counters` are those of a DFlash worker; without them the scheduler has none.
    """
    made = inside_v2.scheduler(**counters)
    made.tp_worker.get_decode_cuda_graph_bs = lambda: []
    made.rust_server = None
    made.internal_state = SchedulerInternalStateController(made, record_step_time=False)
    return made


def internal_state(**counters: Any) -> dict[str, Any]:
    answer = Scheduler.get_internal_state(scheduler(**counters), None)
    return dict(answer.internal_state)


def handle_speculative_decoding(args: ServerArgs) -> Any:
    """The arguments as they are after the engine's own treatment of speculative decoding."""
    speculative_hook._handle_dflash(args)
    return resolving_view(args)


def start_target(target: Any, args: ServerArgs) -> None:
    """The target's start, up to where it has read the draft's configuration."""
    set_global_server_args_for_scheduler(args)
    spec_aux_hidden_state.resolve_spec_aux_hidden_state_config(
        server_args=args,
        model_config=target,
        spec_algorithm=SpeculativeAlgorithm.DFLASH,
        is_draft_worker=False,
    )
    raise InterruptedError


def draft_backend(_: pytest.MonkeyPatch, tmp_path: Path, backend: str) -> str:
    """The attention backend of a draft on a CPU whose target has `backend`."""
    args = inside_v2.draft_arguments(tmp_path, backend)
    handle_speculative_decoding(args)
    set_global_server_args_for_scheduler(args)
    return str(draft_worker_common.resolve_draft_worker_attention_backend(algo_label="DFLASH"))


def live_arguments() -> ServerArgs:
    return get_server_args()


def run_scheduler(args: ServerArgs, pipe: Any) -> None:
    run_scheduler_process(args, None, *[0] * 3, None, pipe)


def watch(made: Any) -> None:
    """What the watchdog of a stopping engine asks besides."""
    inside_v2.watch(made)
    made._server_stop_hook = None


def row_room(_: ServerArgs) -> int:
    """How much wider than the context a request's row is."""
    return int(get_req_to_token_extra_context_len())


def request(committed: int) -> Any:
    """A request that has so many tokens, as the reserve of its next step asks for it."""
    return SimpleNamespace(
        kv=SimpleNamespace(kv_committed_len=committed, kv_allocated_len=committed),
        sampling_params=SimpleNamespace(top_k=1),
        decode_batch_idx=0,
    )
