"""The draft pass asks the device for no length that the host knows."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

WITHOUT = r"assert \[5, 5\] == \[7, 9\]"


def test_lengths_are_the_hosts(draft_pass: Callable[..., Any]) -> None:
    seen: list[Any] = []

    def forward(batch: Any) -> Any:
        seen.append((batch.seq_lens_cpu.tolist(), batch.seq_lens_sum))
        return SimpleNamespace(
            logits_output=SimpleNamespace(hidden_states=None), can_run_graph=True
        )

    # On the device the lengths are 5: a mark of where they were read, not a state to be in.
    draft_pass(forward, requests=2, host_lens=(7, 9))
    lens, total = seen[0]
    assert lens == [7, 9]
    assert total == 16


def test_a_windowed_draft_has_lengths_of_its_own(draft_pass: Callable[..., Any]) -> None:
    seen: list[list[int]] = []

    def forward(batch: Any) -> Any:
        seen.append(batch.seq_lens_cpu.tolist())
        return SimpleNamespace(
            logits_output=SimpleNamespace(hidden_states=None), can_run_graph=True
        )

    draft_pass(forward, requests=2, host_lens=(7, 9), use_compact_draft_cache=True)
    assert seen == [[5, 5]]
