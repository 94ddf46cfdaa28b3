"""Rows that only fill a graph up point to the row and the slots that belong to nobody."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

WITHOUT = r"assert \[1, 2, 3, 4\] == \[1, 0, 0, 0\]"

GRAPH, BLOCK = 4, 8


def batch(requests: int) -> Any:
    tokens = torch.arange(requests * BLOCK) + 100
    return SimpleNamespace(
        input_ids=tokens,
        req_pool_indices=torch.arange(requests) + 1,
        seq_lens=torch.full((requests,), 20),
        out_cache_loc=tokens,
        positions=tokens,
        out_cache_loc_swa=tokens.to(torch.int32),
        mrope_positions=None,
        seq_lens_cpu=None,
    )


def replay(buffers: Any, requests: int) -> None:
    """`requests` of them in the graph for GRAPH."""
    buffers.populate_from_forward_batch(
        forward_batch=batch(requests),
        raw_bs=requests,
        raw_num_token=requests * BLOCK,
        bs=GRAPH,
        seq_len_fill_value=1,
        require_gathered_buffer=False,
        num_tokens_per_bs=BLOCK,
        nsa_enable_prefill_cp=False,
        enable_num_token_non_padded_flag=False,
    )


def test_padded_rows_of_a_shrinking_batch(graph_buffers: Callable[..., Any]) -> None:
    buffers = graph_buffers(max_bs=GRAPH, block_size=BLOCK, is_hybrid_swa=True)
    replay(buffers, GRAPH)
    for requests in (1, 3, 2):
        replay(buffers, requests)
        real = requests * BLOCK
        assert buffers.req_pool_indices.tolist() == [
            *range(1, requests + 1),
            *[0] * (GRAPH - requests),
        ]
        for slots in (buffers.out_cache_loc, buffers.out_cache_loc_swa):
            assert slots[:real].tolist() == list(range(100, 100 + real))
            assert not slots[real:].any()


def test_a_target_without_window_layers_has_no_such_slots(
    graph_buffers: Callable[..., Any],
) -> None:
    buffers = graph_buffers(max_bs=GRAPH, block_size=BLOCK)
    replay(buffers, GRAPH)
    replay(buffers, 2)
    assert buffers.req_pool_indices.tolist() == [1, 2, 0, 0]
    assert buffers.out_cache_loc_swa is None
