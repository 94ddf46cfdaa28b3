"""Without expert parallelism too a captured layer finds the batch's own count of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from inside import inside

WITHOUT = r"assert 8 == (16|24|32)"

BLOCK = 8
# What the last captured graph, one request, leaves in the buffer.
STALE = BLOCK


@pytest.mark.parametrize("requests", [2, 3, 4])
def test_a_batch_without_the_count(
    draft_batch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    inside.expert_ranks(monkeypatch, 1)
    batch = draft_batch(requests=requests, block_size=BLOCK)
    assert batch.num_token_non_padded is None
    count = inside.count_after(
        batch, requests, BLOCK, expert_parallel=False, gathered=False, stale=STALE
    )
    wanted = requests * BLOCK
    assert count == wanted
