"""Verify: the device decides, one transfer, then the host enters what was accepted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.speculative.dflash_info import DFlashVerifyInput
from sglang.srt.speculative.dflash_worker import DFlashWorker

WITHOUT = r"has no attribute '(accept|commit|_fetch_rows)'"

BLOCK = 4


class Request:
    """The part of a request that verify touches; it ends at `stop` or at `limit` tokens."""

    def __init__(self, stop: int = -1, limit: int = 99) -> None:
        self.output_ids: list[int] = []
        self.stop, self.limit = stop, limit
        self.grammar = None
        self.spec_verify_ct = self.spec_accepted_drafts = 0
        self.kv_committed_len = self.kv_allocated_len = 0
        self.ended = False

    def check_finished(self) -> None:
        self.ended = self.output_ids[-1] == self.stop or len(self.output_ids) >= self.limit

    def finished(self) -> bool:
        return self.ended


def verify_input(tokens: list[list[int]]) -> DFlashVerifyInput:
    return DFlashVerifyInput(
        draft_token=torch.tensor(tokens).view(-1),
        positions=torch.zeros(len(tokens) * BLOCK, dtype=torch.int64),
        draft_token_num=BLOCK,
    )


def batch_of(requests: list[Request], prefix: int) -> Any:
    freed: list[int] = []
    count = len(requests)
    for request in requests:
        request.kv_committed_len = prefix
    return SimpleNamespace(
        reqs=requests,
        device="cpu",
        batch_size=lambda: count,
        sampling_info=None,
        seq_lens_cpu=torch.full((count,), prefix),
        seq_lens_sum=prefix * count,
        out_cache_loc=torch.arange(count * BLOCK) + 100,
        token_to_kv_pool_allocator=SimpleNamespace(free=lambda slots: freed.extend(slots.tolist())),
        freed=freed,
    )


def test_the_device_decides() -> None:
    logits = torch.zeros(2 * BLOCK, 16)
    for row, word in enumerate([1, 2, 9, 3, 8, 8, 8, 8]):
        logits[row, word] = 1.0
    given = verify_input([[5, 1, 2, 7], [6, 1, 1, 1]])
    accepted, bonus = given.accept(
        batch_of([Request(), Request()], 10), SimpleNamespace(next_token_logits=logits)
    )
    assert (accepted.tolist(), bonus.tolist()) == ([2, 0], [9, 8])


def test_one_transfer_has_it_all() -> None:
    worker: Any = object.__new__(DFlashWorker)
    rows = worker._fetch_rows(
        verify_input([[5, 1, 2, 7], [6, 1, 1, 1]]), torch.tensor([2, 0]), torch.tensor([9, 8])
    )
    assert rows() == [[1, 2, 7, 2, 9], [1, 1, 1, 0, 8]]


def test_the_host_enters_what_was_accepted() -> None:
    batch = batch_of([Request(), Request()], 10)
    given = verify_input([[0] * BLOCK] * 2)
    counted = given.commit(batch, [[1, 2, 7, 2, 9], [1, 1, 1, 0, 8]], 1)
    assert [request.output_ids for request in batch.reqs] == [[1, 2, 9], [8]]
    assert counted == [2, 0]
    assert [request.spec_accepted_drafts for request in batch.reqs] == [2, 0]
    # Kept: the tokens that were fed to the target and stand: 3 of one, 1 of the other.
    assert batch.freed == [103, 105, 106, 107]
    assert (batch.seq_lens_cpu.tolist(), batch.seq_lens_sum) == ([13, 11], 24)
    assert [request.kv_committed_len for request in batch.reqs] == [13, 11]


@pytest.mark.parametrize("request_", [Request(stop=2), Request(limit=2)])
def test_a_request_that_ends_takes_no_more(request_: Request) -> None:
    batch = batch_of([request_], 10)
    counted = verify_input([[0] * BLOCK]).commit(batch, [[1, 2, 7, 3, 9]], 1)
    assert request_.output_ids == [1, 2]
    assert (counted, batch.freed, batch.seq_lens_cpu.tolist()) == ([1], [102, 103], [12])


def test_all_accepted_frees_nothing() -> None:
    batch = batch_of([Request()], 10)
    verify_input([[0] * BLOCK]).commit(batch, [[1, 2, 7, 3, 9]], 1)
    assert batch.freed == []


@pytest.mark.parametrize(
    ("prefix", "freed"), [(9, [103]), (10, [102, 103]), (11, [101, 102, 103]), (12, [])]
)
def test_pages_are_freed_whole(prefix: int, freed: list[int]) -> None:
    """Pages of 4: with one token committed, the page that holds it stays to its end."""
    batch = batch_of([Request()], prefix)
    verify_input([[0] * BLOCK]).commit(batch, [[1, 1, 1, 0, 8]], 4)
    assert batch.freed == freed
