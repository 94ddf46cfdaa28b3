"""A request at its context's end reserves slots in its own row of the token table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from inside import inside
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang.srt.speculative import dflash_info_v2

WITHOUT = r"assert 144 <= 140"

CONTEXT, BLOCK = 128, 8


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_the_reserve_stays_in_the_row(page_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ServerArgs(
        model_path="dummy",
        page_size=page_size,
        speculative_algorithm="DFLASH",
        speculative_num_steps=1,
        speculative_eagle_topk=1,
        speculative_num_draft_tokens=BLOCK,
    )
    set_global_server_args_for_scheduler(args)
    reserved: list[int] = []

    def allocate(*_: Any, nxt_kv_lens_cpu: torch.Tensor, **__: Any) -> None:
        reserved.extend(nxt_kv_lens_cpu.tolist())

    monkeypatch.setattr(dflash_info_v2, "alloc_for_spec_decode", allocate)
    batch: Any = SimpleNamespace(
        device="cpu",
        batch_size=lambda: 1,
        maybe_evict_swa=lambda: None,
        reqs=[inside.request(CONTEXT)],
        req_pool_indices=torch.tensor([1]),
        tree_cache=None,
        req_to_token_pool=None,
        token_to_kv_pool_allocator=SimpleNamespace(page_size=page_size),
    )
    dflash_info_v2.DFlashDraftInputV2.create_idle_input(torch.device("cpu")).prepare_for_decode(
        batch
    )
    (length,) = reserved
    width = CONTEXT + inside.row_room(args)
    assert length <= width
