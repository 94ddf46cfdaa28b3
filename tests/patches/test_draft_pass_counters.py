"""Draft passes are counted apart from verify passes: in a graph, and outside."""

from __future__ import annotations

import pytest
from inside import inside
from prometheus_client import REGISTRY
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.observability.metrics_collector import SchedulerMetricsCollector
from sglang.srt.server_args import ServerArgs

WITHOUT = r"unexpected keyword argument 'draft_can_run_cuda_graph'"

LABELS = {"model_name": "tiny", "moe_ep_rank": "0"}


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(("in_graph", "counted"), [(True, "cuda_graph"), (False, "eager")])
def test_worker_counts_its_draft_pass(
    in_graph: bool, counted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, handed_on = inside.count_draft_pass(monkeypatch, in_graph)
    assert passes == {"cuda_graph": 0, "eager": 0, counted: 1}
    assert handed_on is in_graph


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

    result = GenerationBatchResult(can_run_cuda_graph=True, draft_can_run_cuda_graph=drafted)
    before = passes()
    with pytest.raises(InterruptedError):
        inside.process_decode(collector, result, stop)
    moved = {mode for mode, value in passes().items() if value != before[mode]}
    assert moved == {"decode_cuda_graph", counted} - {None}
