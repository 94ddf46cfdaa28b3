"""The draft's batch enters the graph runner's buffers under expert parallelism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from inside import inside

WITHOUT = r"AttributeError: 'NoneType' object has no attribute 'dtype'|assert 8 == 16"

REQUESTS, BLOCK = 2, 8
TOKENS = REQUESTS * BLOCK
# What the last captured graph, one request, leaves in the buffer.
STALE = BLOCK


@pytest.fixture
def expert_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    inside.expert_ranks(monkeypatch, 2)


def count_after(batch: Any, gathered: bool = False) -> int:
    """The count in the real buffers after `batch` has entered them."""
    count: int = inside.count_after(
        batch, REQUESTS, BLOCK, expert_parallel=True, gathered=gathered, stale=STALE
    )
    return count


@pytest.mark.usefixtures("expert_parallel")
def test_draft_batch_enters_the_buffers(draft_batch: Callable[[], Any]) -> None:
    assert count_after(draft_batch()) == TOKENS


@pytest.mark.usefixtures("expert_parallel")
def test_draft_batch_carries_the_count(draft_batch: Callable[[], Any]) -> None:
    batch = draft_batch()
    assert batch.num_token_non_padded_cpu == TOKENS
    count = batch.num_token_non_padded
    assert (count.shape, count.dtype, count.tolist()) == ((1,), torch.int32, [TOKENS])


@pytest.mark.usefixtures("expert_parallel")
@pytest.mark.parametrize("gathered", [False, True])
def test_missing_count_is_never_a_stale_one(draft_batch: Callable[[], Any], gathered: bool) -> None:
    assert count_after(replace(draft_batch(), num_token_non_padded=None), gathered) == TOKENS


def test_without_expert_parallelism_the_batch_has_no_count(
    draft_batch: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the buffers then hold is the matter of count-never-stale."""
    inside.expert_ranks(monkeypatch, 1)
    batch = draft_batch()
    assert batch.num_token_non_padded is None
    assert batch.num_token_non_padded_cpu == TOKENS
