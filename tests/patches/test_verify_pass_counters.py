"""Verify passes are counted in server_info as draft passes are: in a graph, and outside."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

WITHOUT = r"(KeyError: 'verify_passes'|'eager': 0\} == \{|verify_passes)"


@pytest.mark.parametrize(("in_graph", "counted"), [(True, "cuda_graph"), (False, "eager")])
def test_worker_counts_its_verify_pass(
    decode_step: Callable[..., Any], in_graph: bool, counted: str
) -> None:
    step = decode_step(verify_in_graph=in_graph)
    assert step.worker.verify_passes == {"cuda_graph": 0, "eager": 0, counted: 1}


def test_server_info_has_both_kinds() -> None:
    passes = {"cuda_graph": 3, "eager": 1}
    set_global_server_args_for_scheduler(ServerArgs(model_path="dummy"))
    cache = SimpleNamespace(mem_usage=0.0)
    scheduler: Any = SimpleNamespace(
        last_gen_throughput=0.0,
        max_total_num_tokens=0,
        max_running_requests=8,
        spec_total_num_forward_ct=0,
        spec_algorithm=SimpleNamespace(is_none=lambda: False, is_dflash=lambda: True),
        draft_worker=SimpleNamespace(draft_passes={"cuda_graph": 4}, verify_passes=passes),
        token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: cache),
        tp_worker=SimpleNamespace(
            model_runner=SimpleNamespace(weight_load_mem_usage=0.0, graph_mem_usage=0.0)
        ),
    )
    state = Scheduler.get_internal_state(scheduler, None).internal_state
    passes["eager"] += 1  # What was answered is of its own time.
    assert state["draft_passes"] == {"cuda_graph": 4}
    assert state["verify_passes"] == {"cuda_graph": 3, "eager": 1}
