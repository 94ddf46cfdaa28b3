"""Verify passes are counted in server_info as draft passes are: in a graph, and outside."""

from __future__ import annotations

import pytest
from inside import inside
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

WITHOUT = r"(KeyError: 'verify_passes'|'eager': 0\} == \{|verify_passes)"


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(("in_graph", "counted"), [(True, "cuda_graph"), (False, "eager")])
def test_worker_counts_its_verify_pass(in_graph: bool, counted: str) -> None:
    worker, _ = inside.decode_step(verify_in_graph=in_graph)
    assert worker.verify_passes == {"cuda_graph": 0, "eager": 0, counted: 1}


def test_server_info_has_both_kinds() -> None:
    passes = {"cuda_graph": 3, "eager": 1}
    set_global_server_args_for_scheduler(ServerArgs(model_path="dummy"))
    state = inside.internal_state(draft_passes={"cuda_graph": 4}, verify_passes=passes)
    passes["eager"] += 1  # What was answered is of its own time.
    assert state["draft_passes"] == {"cuda_graph": 4}
    assert state["verify_passes"] == {"cuda_graph": 3, "eager": 1}
