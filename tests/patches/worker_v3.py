"""Stand-ins for what surrounds the worker of sglang's configuration bags, and its real passes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import worker_v2
from sglang.srt.arg_groups.overrides import resolving_view
from sglang.srt.runtime_context import SpawnRanks, publish
from sglang.srt.speculative import dflash_worker_v2
from worker_v2 import (
    MISSING,
    VOCABULARY,
    broken,
    graph_arguments,
    no_fused_projection,
    start_arguments,
)

__all__ = ["MISSING", "VOCABULARY", "broken", "graph_arguments", "no_fused_projection"]

# Of the newer kinds of draft it is none.
PLAIN: dict[str, Any] = {"candidate_selector": None, "lilicorr": None}
LAYOUT = SimpleNamespace(tp_group=None, disable_cp=False)


class Slots:
    """The plan of where a block's keys and values go, less the plan."""

    def plan(self, **given: Any) -> Any:
        return SimpleNamespace(bind=lambda *_: None, write_slots=given["write_virtual"])


def worker(requests: int, block_size: int, **attributes: Any) -> Any:
    """A DFlashWorkerV2 as __init__ leaves it, less the models and the KV pools."""
    more = {
        "draft_model": SimpleNamespace(**PLAIN),
        "selector": None,
        "lilicorr": None,
        "draft_parallel_layout": LAYOUT,
        "_is_domino": False,
        "_selector_sample": None,
        "_target_logits_processor": None,
        "_full_embed_gpu": None,
        "_noise_embed_scale": 1.0,
        "_tp_sync": SimpleNamespace(sync=lambda *_: None),
        "_draft_write_ids": lambda plan: plan.write_slots,
        "_draft_block_end_buf": None,
    }
    made = worker_v2.worker(requests, block_size, **more | attributes)
    made.model_runner.kv_index_translator = Slots()
    return made


def decode_step(
    verify_in_graph: bool = True, draft_in_graph: bool = True, **attributes: Any
) -> tuple[Any, Any]:
    return worker_v2.decode_step(verify_in_graph, draft_in_graph, make=worker, **attributes)


def draft_batch(monkeypatch: pytest.MonkeyPatch, requests: int, block_size: int) -> Any:
    return worker_v2.draft_batch(monkeypatch, requests, block_size, make=worker)


def count_draft_pass(_: pytest.MonkeyPatch, in_graph: bool) -> tuple[dict[str, int], bool | None]:
    """The worker's counters after one draft pass, and what is handed on to the metrics."""
    made, result = decode_step(draft_in_graph=in_graph)
    return made.draft_passes, result.draft_can_run_cuda_graph


def worker_with_layers(layers: list[Any]) -> Any:
    return worker_v2.worker_with_layers(layers, make=worker)


FALLBACKS = worker_v2.fallbacks(worker)


class Model(torch.nn.Module):
    """A target or a draft without layers."""

    def __init__(self, head: torch.dtype) -> None:
        super().__init__()
        weight = torch.zeros(VOCABULARY, 4).to(head)
        vars(self).update(lm_head=SimpleNamespace(weight=weight), layers=[], block_size=8, **PLAIN)

    def set_block_size(self, size: int) -> None:
        self.block_size = size


def _model_runner(graphs: bool, head: torch.dtype = torch.float32) -> Any:
    runner = worker_v2._model_runner(graphs)
    runner.model = Model(head)
    runner.spec_algorithm = None
    runner.spec_aux_config = SimpleNamespace(draft_model_config=None)
    return runner


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
    """The real worker's start over models without layers; see worker_v2.start_worker."""
    args = start_arguments(monkeypatch, backend)
    resolved = resolving_view(args).speculative_draft_attention_backend
    publish(args, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))
    runner = _model_runner(draft)
    bundle = SimpleNamespace(
        draft_worker=SimpleNamespace(init_cuda_graphs=lambda **_: None),
        draft_model_runner=runner,
        draft_model=runner.model,
        resolved_attention_backend=resolved,
    )
    memory = SimpleNamespace(available_memory_gb=lambda *_, **__: free_gb)
    for name, value in (
        ("build_draft_tp_worker", lambda **_: bundle),
        ("model_draft_parallel_spec", lambda *_, **__: None),
        ("resolve_draft_parallel_layout", lambda *_, **__: LAYOUT),
        ("get_dp_tp_group", lambda: None),
        ("SpecTpSync", lambda _: memory),
        ("is_cuda", lambda: cuda),
        ("is_hip", lambda: False),
        ("is_dflash_sampling_verify_available", lambda: sampling),
    ):
        monkeypatch.setattr(dflash_worker_v2, name, value)
    made = dflash_worker_v2.DFlashWorkerV2
    if not fused:
        monkeypatch.setattr(made, "_init_fused_kv_helper", lambda _: None)
    target_runner = _model_runner(target, head)
    target_worker = SimpleNamespace(model_runner=target_runner, device="cpu", tokenizer=None)
    built = made(args, 0, 0, target_worker)
    built.init_cuda_graphs()
    return built, str(resolved)
