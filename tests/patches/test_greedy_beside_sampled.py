"""A greedy request gets the same tokens whether or not a sampled one shares its batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from inside import inside
from sglang.srt.speculative import dflash_utils

WITHOUT = r"assert \[0, 3\] == \[2, 1\]"

GREEDY, SAMPLED = 0, 1
BLOCK, WORDS = 3, 5


@pytest.fixture(autouse=True)
def kernels_that_draw_the_last_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's kernels, less chance: of the tokens that tie with the best, the last."""

    def top_k_renorm(probs: torch.Tensor, top_ks: torch.Tensor) -> torch.Tensor:
        kth = probs.sort(descending=True).values.gather(1, (top_ks[:, None] - 1).long())
        kept = torch.where(probs >= kth, probs, 0.0)
        return kept / kept.sum(-1, keepdim=True)

    def verify(**given: Any) -> None:
        last = WORDS - 1 - given["target_probs"].flip(-1).argmax(-1)
        candidates = given["candidates"]
        for row in range(len(candidates)):
            accepted = 0
            while accepted < BLOCK - 1 and candidates[row, accepted + 1] == last[row, accepted]:
                accepted += 1
            given["accept_token_num"][row] = accepted
            given["accept_index"][row, accepted] = row * BLOCK + accepted
            given["predicts"][row * BLOCK + accepted] = last[row, accepted]

    monkeypatch.setattr(dflash_utils, "_DFLASH_SAMPLING_VERIFY_AVAILABLE", True)
    monkeypatch.setattr(dflash_utils, "top_k_renorm_prob", top_k_renorm)
    monkeypatch.setattr(dflash_utils, "tree_speculative_sampling_target_only", verify)


def accept(candidates: list[list[int]]) -> tuple[list[int], list[int]]:
    logits = torch.zeros(2, BLOCK, WORDS)
    logits[..., [1, 3]] = 9.0  # what rounding to bfloat16 makes of two close logits
    accepted, bonus = inside.sampling_accept(
        candidates=torch.tensor(candidates),
        next_token_logits=logits.view(-1, WORDS),
        sampling_info=SimpleNamespace(
            temperatures=torch.ones(2, 1),
            top_ks=torch.tensor([1, WORDS]),
            top_ps=torch.ones(2),
            need_top_k_sampling=True,
            need_top_p_sampling=False,
        ),
        threshold_single=1.0,
        threshold_acc=1.0,
    )
    return accepted.tolist(), bonus.tolist()


def test_greedy_row_takes_the_first_of_the_tied() -> None:
    accepted, bonus = accept([[0, 1, 1], [0, 1, 1]])
    assert [accepted[GREEDY], bonus[GREEDY]] == [2, 1]


def test_sampled_row_keeps_what_was_drawn() -> None:
    accepted, bonus = accept([[0, 3, 3], [0, 3, 1]])
    assert [accepted[GREEDY], bonus[GREEDY]] == [0, 1]
    assert [accepted[SAMPLED], bonus[SAMPLED]] == [1, 3]
