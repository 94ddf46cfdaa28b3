"""In strict mode the draft's checkpoint holds each parameter and nothing unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from sglang.srt.models.dflash import DFlashDraftModel
from transformers import Qwen3Config

WITHOUT = r"DID NOT RAISE (<class ')?SystemExit"

CONFIG = Qwen3Config(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=16,
    vocab_size=64,
    max_position_embeddings=128,
    rope_theta=50000.0,
)
CONFIG.dflash_config = {"mask_token_id": 3, "target_layer_ids": [0, 1, 2]}
CONFIG.num_target_layers = 4
CONFIG.block_size = 8

Tensors = dict[str, torch.Tensor]


@pytest.fixture
def draft(one_rank: None) -> DFlashDraftModel:
    torch.manual_seed(0)
    return DFlashDraftModel(CONFIG)


@pytest.fixture
def checkpoint(draft: DFlashDraftModel) -> Tensors:
    """A checkpoint of this draft, as a training run writes it: nothing is stacked."""
    tensors: Tensors = {}
    for name, parameter in draft.named_parameters():
        for stacked, parts in (
            ("qkv_proj", ["q_proj", "k_proj", "v_proj"]),
            ("gate_up_proj", ["gate_proj", "up_proj"]),
        ):
            if stacked in name:
                for part, rows in zip(parts, parameter.chunk(len(parts)), strict=True):
                    tensors[name.replace(stacked, part)] = torch.randn_like(rows)
                break
        else:
            tensors[name] = torch.randn_like(parameter)
    return tensors


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_KIT_STRICT", "1")


def load(draft: DFlashDraftModel, tensors: Tensors) -> None:
    draft.load_weights(iter(tensors.items()))


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("prefix", ["", "model."])
def test_a_whole_checkpoint_loads(
    draft: DFlashDraftModel, checkpoint: Tensors, prefix: str
) -> None:
    caches = {"layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(8)}
    load(draft, {prefix + name: tensor for name, tensor in (checkpoint | caches).items()})
    torch.testing.assert_close(draft.fc.weight, checkpoint["fc.weight"])
    loaded = draft.layers[1].self_attn.qkv_proj.weight
    wanted = [checkpoint[f"layers.1.self_attn.{part}_proj.weight"] for part in "qkv"]
    torch.testing.assert_close(loaded, torch.cat(wanted))


def renamed(tensors: Tensors) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in tensors.items():
        yield name.replace("layers.1.mlp.up_proj", "layers.1.mlp.upward"), tensor


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (
            lambda tensors: dict(renamed(tensors)),
            ["lacks layers.1.mlp.up_proj.weight;", "unknown layers.1.mlp.upward.weight"],
        ),
        (
            lambda tensors: {k: v for k, v in tensors.items() if "0.self_attn.v_proj" not in k},
            ["lacks layers.0.self_attn.v_proj.weight"],
        ),
        (
            lambda tensors: {k: v for k, v in tensors.items() if k != "fc.weight"},
            ["lacks fc.weight"],
        ),
        (
            lambda tensors: tensors | {"lm_head.weight": torch.zeros(64, 32)},
            ["has the unknown lm_head.weight"],
        ),
        (
            lambda tensors: {f"draft.{k}": v for k, v in tensors.items()},
            ["lacks fc.weight, hidden_norm.weight,", "more; ", "unknown draft.fc.weight, "],
        ),
        (lambda tensors: {}, ["lacks fc.weight, "]),
    ],
    ids=["renamed", "a-part", "projection", "unknown", "prefixed", "empty"],
)
def test_another_checkpoint_is_refused(
    draft: DFlashDraftModel,
    checkpoint: Tensors,
    change: Callable[[Tensors], Tensors],
    wanted: list[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        load(draft, change(checkpoint))
    text = str(ended.value.code)
    assert "\n" not in text and len(text) < 400
    for part in wanted:
        assert part in text


def test_without_strict_mode_it_is_sglang_as_it_is(
    draft: DFlashDraftModel, checkpoint: Tensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DFLASH_KIT_STRICT", raising=False)
    before = draft.layers[1].mlp.gate_up_proj.weight.clone()
    load(draft, dict(renamed(checkpoint)))
    half = before.shape[0] // 2
    # What was never loaded may be anything.
    torch.testing.assert_close(
        draft.layers[1].mlp.gate_up_proj.weight[half:], before[half:], equal_nan=True
    )
