"""The draft's forward embeds its block and picks the block's tokens by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.models import dflash
from sglang.srt.models.dflash import DFlashDraftModel
from sglang.srt.speculative.dflash_worker import DFlashWorker

WITHOUT = r"has no attribute 'attach_target'"

HIDDEN, BLOCK, WORDS = 8, 4, 16


@pytest.fixture
def model(one_rank: None, monkeypatch: pytest.MonkeyPatch) -> DFlashDraftModel:
    """The real draft model, less its layers."""
    monkeypatch.setattr(dflash, "DFlashDecoderLayer", lambda **_: torch.nn.Identity())
    made = DFlashDraftModel(
        SimpleNamespace(
            hidden_size=HIDDEN,
            num_hidden_layers=1,
            rms_norm_eps=1e-6,
            block_size=BLOCK,
            num_target_layers=2,
            dflash_config={"mask_token_id": 3, "target_layer_ids": [0]},
        )
    )
    made.layers = torch.nn.ModuleList()
    return made


def attach(model: DFlashDraftModel) -> tuple[torch.nn.Embedding, list[torch.Tensor]]:
    embed, seen = torch.nn.Embedding(WORDS, HIDDEN), []

    def pick(hidden: torch.Tensor) -> torch.Tensor:
        seen.append(hidden)
        return torch.arange(len(hidden)) + 100

    model.attach_target(embed=embed, pick=pick, block_size=BLOCK, max_blocks=3)
    return embed, seen


def test_forward_embeds_and_picks(model: DFlashDraftModel) -> None:
    embed, seen = attach(model)
    ids = torch.tensor([5, 3, 3, 3, 6, 3, 3, 3])
    model.forward(ids, torch.arange(8), None)
    torch.testing.assert_close(seen[0], model.norm(embed(ids)))
    # The known token of each block stays; the third block was not asked for.
    assert model.block_tokens.tolist() == [5, 101, 102, 103, 6, 105, 106, 107, 0, 0, 0, 0]


def test_tokens_stay_where_they_are(model: DFlashDraftModel) -> None:
    """A graph writes to the address that it was captured with."""
    attach(model)
    where = model.block_tokens.data_ptr()
    model.forward(torch.tensor([5, 3, 3, 3]), torch.arange(4), None)
    assert model.block_tokens.data_ptr() == where


def test_added_words_need_no_boolean_index(one_rank: None) -> None:
    worker: Any = object.__new__(DFlashWorker)
    worker._draft_greedy_gather_cap = worker._draft_greedy_index_cap = 0
    weight = torch.zeros(6, HIDDEN)
    weight[2, 0] = weight[5, 1] = 1.0  # word 2 of the base, and the second added one
    head = SimpleNamespace(
        weight=weight,
        shard_indices=SimpleNamespace(
            num_org_elements=4,
            num_org_elements_padded=4,
            num_added_elements=2,
            org_vocab_start_index=0,
            added_vocab_start_index=10,
        ),
    )
    hidden = torch.eye(HIDDEN)[:2]
    picked = worker._greedy_sample_from_vocab_parallel_head(hidden_states=hidden, lm_head=head)
    assert picked.tolist() == [2, 11]
