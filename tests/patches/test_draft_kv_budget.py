"""The target's pool leaves the draft the room that the draft's own layers take."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from inside import inside
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.model_executor import pool_configurator

WITHOUT = r"assert 77184 == (73344|82560)|assert 38592 == 41280|has no attribute '_?dflash_draft"

# Kimi's: an MLA target of 61 layers, 576 values a token each; a draft of 6 layers with full heads.
TARGET_LAYERS, LATENT = 61, 512 + 64
DRAFT = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "num_hidden_layers": 6,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 7168,
    "vocab_size": 163840,
    "max_position_embeddings": 4096,
}
DRAFT_TOKEN = 6 * 8 * (128 + 128)  # values a token, over all ranks


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    folder: Path = tmp_path_factory.mktemp("draft")
    (folder / "config.json").write_text(json.dumps(DRAFT))
    return ModelConfig(str(folder), is_draft_model=True)


@pytest.fixture
def runner(
    draft: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int, str, torch.dtype], Any]:
    """A target's model runner at (ranks, --kv-cache-dtype, the type of its pool)."""

    def make(ranks: int, flag: str, dtype: torch.dtype) -> Any:
        return inside.pool_owner(monkeypatch, draft, ranks, flag, dtype)

    return make


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_an_mla_target_leaves_room_for_full_heads(runner: Callable[..., Any], ranks: int) -> None:
    made = pool_configurator.DefaultPoolConfigurator(runner(ranks, "auto", torch.bfloat16))
    per_token = TARGET_LAYERS * LATENT * 2 + DRAFT_TOKEN // ranks * 2
    assert made._cell_size == per_token
    pool = made.calculate_pool_sizes(per_token * 640 + 1, 64)
    assert pool.max_total_num_tokens == 640


@pytest.mark.parametrize(
    ("flag", "target_bytes", "draft_bytes"),
    [("auto", 1, 2), ("fp8_e4m3", 1, 1)],
    ids=["fp8-of-the-target-alone", "fp8-by-flag"],
)
def test_each_pool_has_its_own_type(
    runner: Callable[..., Any], flag: str, target_bytes: int, draft_bytes: int
) -> None:
    made = pool_configurator.DefaultPoolConfigurator(runner(4, flag, torch.float8_e4m3fn))
    target = TARGET_LAYERS * LATENT * target_bytes
    assert made._cell_size == target + DRAFT_TOKEN // 4 * draft_bytes


def test_a_target_with_window_layers_leaves_room_too(
    runner: Callable[..., Any], draft: ModelConfig
) -> None:
    made = runner(2, "auto", torch.bfloat16)
    made.model_config = SimpleNamespace(
        full_attention_layer_ids=[0, 2],
        swa_attention_layer_ids=[1, 3],
        head_dim=64,
        v_head_dim=64,
        swa_head_dim=64,
        swa_v_head_dim=64,
        get_num_kv_heads=lambda ranks: 8 // ranks,
        get_swa_num_kv_heads=lambda ranks: 8 // ranks,
    )
    layer = 4 * 128 * 2  # bytes a token and rank
    sized = pool_configurator.HybridSWAPoolConfigurator(made)
    assert sized._cell_size == 2 * layer + 0.5 * 2 * layer + DRAFT_TOKEN // 2 * 2


@pytest.mark.parametrize(("dflash", "is_draft"), [(False, False), (True, True)])
def test_nobody_else_leaves_room(runner: Callable[..., Any], dflash: bool, is_draft: bool) -> None:
    made = runner(2, "auto", torch.bfloat16)
    if not dflash:
        inside.without_dflash(made)
    made.is_draft_worker = is_draft
    made = pool_configurator.DefaultPoolConfigurator(made)
    assert made._cell_size == TARGET_LAYERS * LATENT * 2
