"""Draft passes are counted apart from verify passes: in a graph, and outside."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY
from sglang.srt.managers.scheduler_output_processor_mixin import SchedulerOutputProcessorMixin
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.observability.metrics_collector import SchedulerMetricsCollector
from sglang.srt.server_args import ServerArgs

WITHOUT = r"unexpected keyword argument 'draft_can_run_cuda_graph'"

LABELS = {"model_name": "tiny", "moe_ep_rank": "0"}


@pytest.mark.parametrize(("in_graph", "counted"), [(True, "cuda_graph"), (False, "eager")])
def test_worker_counts_its_draft_pass(
    draft_pass: Callable[..., Any], in_graph: bool, counted: str
) -> None:
    output = SimpleNamespace(
        logits_output=SimpleNamespace(hidden_states=None), can_run_graph=in_graph
    )
    worker = draft_pass(lambda batch: output)
    assert worker.draft_passes == {"cuda_graph": 0, "eager": 0, counted: 1}
    assert worker._draft_can_run_graph is in_graph


@pytest.fixture(scope="module")
def collector() -> SchedulerMetricsCollector:
    return SchedulerMetricsCollector(labels=LABELS, server_args=ServerArgs(model_path="dummy"))


@pytest.mark.parametrize(
    ("drafted", "counted"), [(True, "draft_cuda_graph"), (False, "draft_none"), (None, None)]
)
def test_metric(
    collector: SchedulerMetricsCollector, drafted: bool | None, counted: str | None
) -> None:
    """The real processing of a decode result, up to its first step after the metrics."""

    def stop() -> None:
        raise InterruptedError

    def passes() -> dict[str, float]:
        return {
            mode: REGISTRY.get_sample_value(
                "sglang:cuda_graph_passes_total", LABELS | {"mode": mode}
            )
            or 0.0
            for mode in ("decode_cuda_graph", "decode_none", "draft_cuda_graph", "draft_none")
        }

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
    result = GenerationBatchResult(can_run_cuda_graph=True, draft_can_run_cuda_graph=drafted)
    before = passes()
    with pytest.raises(InterruptedError):
        SchedulerOutputProcessorMixin.process_batch_result_decode(scheduler, batch, result)
    moved = {mode for mode, value in passes().items() if value != before[mode]}
    assert moved == {"decode_cuda_graph", counted} - {None}
