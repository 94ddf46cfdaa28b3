"""The buffers that the graphs of worker v2 read: what a batch leaves in them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.model_executor import cuda_graph_buffer_registry, forward_batch_info
from sglang.srt.model_executor.runner import base_runner
from worker_v2 import VOCABULARY


def count_after(
    batch: Any, requests: int, block_size: int, expert_parallel: bool, gathered: bool, stale: int
) -> int:
    """The count in the real buffers of a graph after `batch` has entered them."""
    largest = 4
    buffers = base_runner._allocate_decode_buffers(
        device=torch.device("cpu"),
        max_bs=largest,
        max_num_token=largest * block_size,
        hidden_size=4,
        vocab_size=VOCABULARY,
        dtype=torch.float32,
        dp_size=1,
        pp_size=1,
        is_encoder_decoder=False,
        require_mlp_tp_gather=False,
        seq_len_fill_value=1,
        encoder_len_fill_value=0,
        num_tokens_per_req=block_size,
        cache_loc_dtype=torch.int64,
        enable_mamba_track=False,
    )
    buffers.num_token_non_padded.fill_(stale)
    registry = cuda_graph_buffer_registry.build_decode_registry(
        device=torch.device("cpu"),
        max_bs=largest,
        max_num_token=largest * block_size,
        seq_len_fill_value=1,
        cache_loc_dtype=torch.int64,
        enable_num_token_non_padded=expert_parallel,
        require_gathered_buffer=gathered,
        source=buffers,
    )
    registry.fill_from(
        batch,
        raw_bs=requests,
        padded_bs=largest,
        raw_num_tokens=requests * block_size,
        padded_num_tokens=largest * block_size,
    )
    return int(buffers.num_token_non_padded)


def expert_ranks(monkeypatch: pytest.MonkeyPatch, ranks: int) -> None:
    """This process is one of so many expert-parallel ranks."""
    parallel = SimpleNamespace(moe_ep_size=ranks, attn_tp_size=1, attn_tp_rank=0)
    monkeypatch.setattr(forward_batch_info, "get_parallel", lambda: parallel)
