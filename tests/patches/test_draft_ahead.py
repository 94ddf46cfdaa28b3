"""The next block is queued before the wait for this one, and follows its requests."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.speculative import dflash_worker
from sglang.srt.speculative.dflash_info import DFlashDraftInput

WITHOUT = r"assert \['append', 'wait'\] == \['append', 'draft', 'wait'\]"

BLOCK = 4


def state(ids: list[int], block: bool = True) -> DFlashDraftInput:
    count = len(ids)
    made = DFlashDraftInput(
        verified_id=torch.tensor(ids),
        target_hidden=torch.empty(0, 8),
        ctx_lens=torch.zeros(count, dtype=torch.int32),
        draft_seq_lens=torch.tensor(ids, dtype=torch.int32),
    )
    if block:
        made.block = torch.tensor(ids)[:, None].expand(-1, BLOCK) * 10
    return made


def test_a_request_that_leaves_takes_its_row_along() -> None:
    kept = state([1, 2, 3])
    kept.filter_batch(torch.tensor([0, 2]))
    assert kept.block is not None
    assert kept.block[:, 0].tolist() == [10, 30] and kept.verified_id.tolist() == [1, 3]


@pytest.mark.parametrize("theirs", [True, False])
def test_a_request_that_joins_voids_the_block(theirs: bool) -> None:
    ours = state([1, 2])
    ours.merge_batch(state([3], block=theirs))
    assert ours.block is None and ours.verified_id.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("wanted", "attributes"),
    [
        (True, {"_block_needs_slots": False}),
        (True, {}),
        (False, {"use_compact_draft_cache": True}),
        (False, {"page_size": 4}),
        (False, {"free": 7}),
        (False, {"width": 12}),
    ],
)
def test_when(wanted: bool, attributes: dict[str, Any]) -> None:
    """On a CPU: not with a window, with pages, without free slots or beyond the context."""
    given = {"free": 8, "width": 14} | attributes
    worker: Any = object.__new__(dflash_worker.DFlashWorker)
    vars(worker).update(
        {
            "use_compact_draft_cache": False,
            "_block_needs_slots": True,
            "page_size": 1,
            "block_size": BLOCK,
            "draft_model_runner": SimpleNamespace(
                token_to_kv_pool_allocator=SimpleNamespace(available_size=lambda: given["free"]),
                req_to_token_pool=SimpleNamespace(req_to_token=torch.zeros(3, given["width"])),
            ),
        }
        | attributes
    )
    batch = SimpleNamespace(seq_lens=torch.tensor([10, 9]), batch_size=lambda: 2)
    assert worker._can_draft_ahead(batch) is wanted


def test_the_draft_comes_before_the_wait(first_steps: Callable[..., Any]) -> None:
    step = first_steps()
    assert step.turns == ["append", "draft", "wait"]
    assert step.batch.spec_info.block == "block"
    assert step.batch.seq_lens.tolist() == [6, 8]
    assert step.batch.spec_info.verified_id.tolist() == [7, 8]
