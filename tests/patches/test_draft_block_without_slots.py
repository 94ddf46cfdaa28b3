"""Where the draft's attention needs no slots for its block, none are taken."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

WITHOUT = r"InterruptedError: a slot was asked for"

REQUESTS, BLOCK = 2, 4


def run(draft_pass: Callable[..., Any], allocator: Any, needs_slots: bool) -> list[int]:
    seen: list[list[int]] = []
    pools = SimpleNamespace(
        forward=lambda batch: (
            seen.append(batch.out_cache_loc.tolist())
            or SimpleNamespace(
                logits_output=SimpleNamespace(hidden_states=None), can_run_graph=True
            )
        ),
        token_to_kv_pool_allocator=allocator,
        req_to_token_pool=SimpleNamespace(req_to_token=None),
        token_to_kv_pool=None,
        attn_backend=None,
    )
    draft_pass(
        None,
        requests=REQUESTS,
        block_size=BLOCK,
        draft_model_runner=pools,
        _block_needs_slots=needs_slots,
    )
    return seen[0]


def test_no_slot_is_taken(draft_pass: Callable[..., Any]) -> None:
    def refuse(*_: Any) -> Any:
        raise InterruptedError("a slot was asked for")

    allocator = SimpleNamespace(backup_state=refuse, restore_state=refuse, alloc=refuse)
    assert run(draft_pass, allocator, needs_slots=False) == [0] * (REQUESTS * BLOCK)


@pytest.mark.parametrize("full", [False, True])
def test_others_take_theirs_and_give_them_back(draft_pass: Callable[..., Any], full: bool) -> None:
    import torch

    restored: list[str] = []
    allocator = SimpleNamespace(
        backup_state=lambda: "before",
        restore_state=restored.append,
        alloc=lambda size: None if full else torch.arange(size) + 7,
    )
    if full:
        # AssertionError: the fixture wants the pass to end otherwise.
        with pytest.raises(AssertionError, match="DFLASH draft OOM"):
            run(draft_pass, allocator, needs_slots=True)
    else:
        assert run(draft_pass, allocator, needs_slots=True) == list(range(7, 15))
    assert restored == ["before"]
