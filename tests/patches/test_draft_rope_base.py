"""The draft rotates by the base that its configuration states, in any version's style."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.models.dflash import DFlashAttention
from transformers import Qwen3Config

WITHOUT = r"assert 1000000(\.0)? == 50000"

BASE = 50000.0
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}

pytestmark = pytest.mark.usefixtures("one_rank")


def rotary(config: Any) -> Any:
    return DFlashAttention(config, layer_id=0).rotary_emb


@pytest.mark.parametrize(
    "stated",
    [
        {"rope_theta": BASE},
        {"rope_parameters": {"rope_type": "default", "rope_theta": BASE}},
        {"rope_theta": BASE, "rope_scaling": YARN},
        {"rope_parameters": {**YARN, "rope_theta": BASE}},
    ],
    ids=["version-4", "version-5", "version-4-yarn", "version-5-yarn"],
)
def test_base_of_a_qwen3_draft(stated: dict[str, Any]) -> None:
    """Qwen3Config is the class that DFlash drafts name."""
    assert rotary(Qwen3Config(**SHAPE, **stated)).base == BASE


def test_angles_follow_the_base() -> None:
    rope = rotary(Qwen3Config(**SHAPE, rope_theta=BASE))
    angles = torch.arange(128)[:, None] / BASE ** (torch.arange(0, 16, 2) / 16)
    wanted = torch.cat([angles.cos(), angles.sin()], dim=-1)
    torch.testing.assert_close(rope.cos_sin_cache[:128].float(), wanted, rtol=0, atol=1e-5)


def test_yarn_scales_from_the_base() -> None:
    plain = 1 / BASE ** (torch.arange(0, 16, 2) / 16)
    yarn = rotary(Qwen3Config(**SHAPE, rope_theta=BASE, rope_scaling=YARN))
    # YaRN leaves the fastest dimension as it is and divides the slowest by its factor.
    ratio = plain / yarn._compute_inv_freq(yarn.scaling_factor)
    assert (ratio[0].item(), ratio[-1].item()) == (pytest.approx(1.0), pytest.approx(4.0))


def test_base_of_a_class_with_plain_attributes() -> None:
    assert rotary(SimpleNamespace(**SHAPE, rope_theta=BASE)).base == BASE


def test_no_stated_base_stops_the_start() -> None:
    with pytest.raises(ValueError, match=r"config\.json states no RoPE base"):
        rotary(SimpleNamespace(**SHAPE))
