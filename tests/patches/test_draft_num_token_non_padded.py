"""The draft's batch enters the graph runner's buffers under expert parallelism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from sglang.srt.model_executor import forward_batch_info

WITHOUT = r"AttributeError: 'NoneType' object has no attribute 'dtype'"

REQUESTS, BLOCK = 2, 8
TOKENS = REQUESTS * BLOCK
# What the last captured graph, one request, leaves in the buffer.
STALE = BLOCK


@pytest.fixture
def expert_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_batch_info, "get_moe_expert_parallel_world_size", lambda: 2)


@pytest.fixture
def populate(graph_buffers: Callable[..., Any]) -> Callable[..., int]:
    """The count in the real buffers after a batch was copied into them."""

    def copied(batch: Any, gathered: bool = False) -> int:
        buffers = graph_buffers(max_bs=4, block_size=BLOCK)
        buffers.num_token_non_padded.fill_(STALE)
        buffers.populate_from_forward_batch(
            forward_batch=batch,
            raw_bs=REQUESTS,
            raw_num_token=TOKENS,
            bs=4,
            seq_len_fill_value=1,
            require_gathered_buffer=gathered,
            num_tokens_per_bs=BLOCK,
            nsa_enable_prefill_cp=False,
            enable_num_token_non_padded_flag=forward_batch_info.enable_num_token_non_padded(None),
        )
        return int(buffers.num_token_non_padded.item())

    return copied


@pytest.mark.usefixtures("expert_parallel")
def test_draft_batch_enters_the_buffers(
    draft_batch: Callable[[], Any], populate: Callable[..., int]
) -> None:
    assert populate(draft_batch()) == TOKENS


@pytest.mark.usefixtures("expert_parallel")
def test_draft_batch_carries_the_count(draft_batch: Callable[[], Any]) -> None:
    batch = draft_batch()
    assert batch.num_token_non_padded_cpu == TOKENS
    count = batch.num_token_non_padded
    assert (count.shape, count.dtype, count.tolist()) == ((1,), torch.int32, [TOKENS])


@pytest.mark.usefixtures("expert_parallel")
@pytest.mark.parametrize("gathered", [False, True])
def test_missing_count_is_never_a_stale_one(
    draft_batch: Callable[[], Any],
    populate: Callable[..., int],
    gathered: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forward_batch_info, "get_attention_tp_rank", lambda: 0)
    monkeypatch.setattr(forward_batch_info, "get_attention_tp_size", lambda: 1)
    assert populate(replace(draft_batch(), num_token_non_padded=None), gathered) == TOKENS


def test_without_expert_parallelism_the_batch_has_no_count(
    draft_batch: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the buffers then hold is the matter of count-never-stale."""
    monkeypatch.setattr(forward_batch_info, "get_moe_expert_parallel_world_size", lambda: 1)
    batch = draft_batch()
    assert batch.num_token_non_padded is None
    assert batch.num_token_non_padded_cpu == TOKENS
