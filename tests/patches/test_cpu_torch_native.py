"""What DFlash needs on a CPU: verify attention, the token table, the pools, the backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from inside import inside
from sglang.srt.layers.radix_attention import AttentionType, RadixAttention
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool
from sglang.srt.models.dflash import DFlashDraftModel
from sglang.srt.speculative.dflash_info import DFlashVerifyInput
from sglang.srt.speculative.spec_utils import assign_req_to_token_pool_func
from transformers import Qwen3Config

# One failure for each of the changes.
WITHOUT = (
    r"(?s)(?=.*test_host_pool\w*: assert not True)"
    r"(?=.*'flashinfer' == 'torch_native'|.*only supports CUDA and NPU devices"
    r"|.*is not supported by)"
    r"(?=.*'NoneType' object has no attribute 'shape')"
    r"(?=.*test_token_table\w*: )(?=.*test_kv_moves\w*: )"
)

HEADS, KV_HEADS, DIM, BLOCK = 4, 2, 8, 4
PREFIX = [3, 1]


def kv_pool(**options: Any) -> MHATokenToKVPool:
    return MHATokenToKVPool(
        size=32,
        page_size=1,
        dtype=torch.float32,
        head_num=KV_HEADS,
        head_dim=DIM,
        layer_num=1,
        device="cpu",
        enable_memory_saver=False,
        **options,
    )


def plain_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool
) -> torch.Tensor:
    """Softmax attention of a block [BLOCK, heads, dim] over prefix + block, in float64."""
    k = k.repeat_interleave(HEADS // KV_HEADS, dim=1).double()
    v = v.repeat_interleave(HEADS // KV_HEADS, dim=1).double()
    score = torch.einsum("qhd,khd->hqk", q.double(), k) * DIM**-0.5
    if causal:
        length = k.shape[0]
        after = torch.arange(length)[None] > torch.arange(length - BLOCK, length)[:, None]
        score = score.masked_fill(after, float("-inf"))
    return torch.einsum("hqk,khd->qhd", score.softmax(-1), v).flatten(1)


@pytest.mark.parametrize(
    ("kind", "causal"), [(AttentionType.DECODER, True), (AttentionType.ENCODER_ONLY, False)]
)
def test_verify_attention(kind: AttentionType, causal: bool) -> None:
    """The target verifies a block causally; the draft sees its whole block."""
    torch.manual_seed(0)
    requests = len(PREFIX)
    table = ReqToTokenPool(size=4, max_context_len=16, device="cpu", enable_memory_saver=False)
    pool = kv_pool()
    slots = torch.randperm(32)[: sum(PREFIX) + requests * BLOCK] + 1
    keys, values = torch.randn(2, len(slots), KV_HEADS, DIM)
    layer = RadixAttention(HEADS, DIM, DIM**-0.5, KV_HEADS, layer_id=0, attn_type=kind)
    rows = torch.tensor([3, 1])
    parts = slots.split([length + BLOCK for length in PREFIX])
    for row, part in zip(rows, parts, strict=True):
        table.req_to_token[row, : len(part)] = part.to(torch.int32)
    pool.set_kv_buffer(layer, slots, keys, values)
    block = torch.cat([part[-BLOCK:] for part in parts])
    where = torch.cat([torch.nonzero(slots == slot)[0] for slot in block])
    queries = torch.randn(requests * BLOCK, HEADS * DIM)
    lengths = torch.tensor(PREFIX, dtype=torch.int32)
    got = inside.verify_attention(
        queries,
        keys[where],
        values[where],
        layer,
        table,
        pool,
        batch_size=requests,
        input_ids=torch.zeros(requests * BLOCK, dtype=torch.int64),
        req_pool_indices=rows,
        seq_lens=lengths,
        out_cache_loc=block,
        seq_lens_sum=sum(PREFIX),
        spec_info=DFlashVerifyInput(
            draft_token=torch.empty(0), positions=torch.empty(0), draft_token_num=BLOCK
        ),
    )

    bounds = zip(
        queries.view(requests, BLOCK, HEADS, DIM),
        keys.split([length + BLOCK for length in PREFIX]),
        values.split([length + BLOCK for length in PREFIX]),
        strict=True,
    )
    wanted = torch.cat([plain_attention(q, k, v, causal) for q, k, v in bounds])
    torch.testing.assert_close(got.double(), wanted, rtol=1e-4, atol=1e-5)
    assert lengths.tolist() == PREFIX


@pytest.mark.usefixtures("one_rank")
def test_the_drafts_heads_in_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16, as drafts are served, its heads are those of float32, rounded."""
    config = Qwen3Config(hidden_size=32, num_attention_heads=HEADS, head_dim=DIM)
    config.num_hidden_layers, config.num_key_value_heads, config.block_size = 1, KV_HEADS, BLOCK
    config.dflash_config = {"mask_token_id": 3, "target_layer_ids": [0]}
    heads: list[torch.Tensor] = []

    def attend(_: Any, q: torch.Tensor, k: torch.Tensor, *__: Any) -> torch.Tensor:
        heads.append(torch.cat([q, k], dim=-1).float())
        return q

    monkeypatch.setattr(RadixAttention, "forward", attend)
    attention = DFlashDraftModel(config).layers[0].self_attn
    torch.manual_seed(0)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    hidden = torch.randn(BLOCK, config.hidden_size)
    for dtype in (torch.float32, torch.bfloat16):
        attention.to(dtype)(torch.arange(BLOCK), hidden.to(dtype), None)
    torch.testing.assert_close(heads[1], heads[0], rtol=0.05, atol=0.05)
    assert heads[0].std() > 0.5


def test_token_table_is_written() -> None:
    table = torch.full((4, 8), -1, dtype=torch.int32)
    assign_req_to_token_pool_func(
        torch.tensor([2, 0]),
        table,
        torch.tensor([1, 4], dtype=torch.int32),
        torch.tensor([4, 6], dtype=torch.int32),
        torch.tensor([11, 12, 13, 21, 22]),
        2,
    )
    wanted = torch.full((4, 8), -1, dtype=torch.int32)
    wanted[2, 1:4] = torch.tensor([11, 12, 13])
    wanted[0, 4:6] = torch.tensor([21, 22])
    assert torch.equal(table, wanted)


def test_kv_moves_without_a_kernel() -> None:
    pool = kv_pool(enable_kv_cache_copy=True)
    pool.k_buffer[0][5] = 7.0
    pool.move_kv_cache(torch.tensor([2]), torch.tensor([5]))
    assert torch.all(pool.k_buffer[0][2] == 7.0)


def test_host_pool_imports_without_sgl_kernel(needs_sgl_kernel: bool) -> None:
    assert not needs_sgl_kernel


def test_draft_runs_on_torch_native(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert inside.draft_backend(monkeypatch, tmp_path, "torch_native") == "torch_native"
