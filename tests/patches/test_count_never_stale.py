"""Without expert parallelism too a captured layer finds the batch's own count of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

WITHOUT = r"assert 8 == (16|24|32)"

BLOCK = 8
# What the last captured graph, one request, leaves in the buffer.
STALE = BLOCK


@pytest.mark.parametrize("requests", [2, 3, 4])
def test_a_batch_without_the_count(
    graph_buffers: Callable[..., Any], draft_batch: Callable[..., Any], requests: int
) -> None:
    buffers = graph_buffers(max_bs=4, block_size=BLOCK)
    buffers.num_token_non_padded.fill_(STALE)
    batch = draft_batch(requests=requests, block_size=BLOCK)
    assert batch.num_token_non_padded is None
    buffers.populate_from_forward_batch(
        forward_batch=batch,
        raw_bs=requests,
        raw_num_token=requests * BLOCK,
        bs=4,
        seq_len_fill_value=1,
        require_gathered_buffer=False,
        num_tokens_per_bs=BLOCK,
        nsa_enable_prefill_cp=False,
        enable_num_token_non_padded_flag=False,
    )
    count, wanted = int(buffers.num_token_non_padded), requests * BLOCK
    assert count == wanted
