"""In strict mode a draft whose configuration does not fit the target ends the start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from inside import inside
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.server_args import ServerArgs

WITHOUT = r"DID NOT RAISE (<class ')?SystemExit|InterruptedError"

BLOCK = 8
TARGET: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 768,
    "max_position_embeddings": 2048,
}
DFLASH: dict[str, Any] = {"mask_token_id": 3, "target_layer_ids": [0, 2, 4]}
DRAFT: dict[str, Any] = TARGET | {
    "architectures": ["DFlashDraftModel"],
    "num_hidden_layers": 2,
    "num_target_layers": 6,
    "block_size": BLOCK,
    "dflash_config": DFLASH,
}


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., None]:
    """Start the target, up to where it has looked at the draft's configuration.

    `draft` replaces keys of the draft's config.json; None takes one out.
    """

    def make(**draft: Any) -> None:
        stated = {key: value for key, value in (DRAFT | draft).items() if value is not None}
        for name, config in (("target", TARGET), ("draft", stated)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "config.json").write_text(json.dumps(config))
        args = ServerArgs(
            model_path="dummy",
            device="cpu",
            speculative_algorithm="DFLASH",
            speculative_draft_model_path=str(tmp_path / "draft"),
            speculative_num_draft_tokens=BLOCK,
        )
        inside.start_target(ModelConfig(str(tmp_path / "target")), args)

    return make


MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"dtype": "float16"}, f"dtype: the draft has {torch.float16}, wanted {torch.bfloat16}"),
    ({"hidden_size": 64}, "hidden_size: the draft has 64, wanted 128"),
    ({"block_size": 16}, "block_size: the draft has 16, wanted 8"),
    ({"num_target_layers": 5}, "num_target_layers: the draft has 5, wanted 6"),
    (
        {"dflash_config": DFLASH | {"mask_token_id": 768}},
        "mask_token_id: got 768, wanted less than the target's vocab_size 768",
    ),
    ({"dflash_config": {"target_layer_ids": [0, 2, 4]}}, "mask_token_id: the draft states none"),
    ({"dflash_config": {"mask_token_id": 3}}, "target_layer_ids: the draft states none"),
    (
        {"dflash_config": DFLASH | {"target_layer_ids": [0, 6]}},
        "target_layer_ids: got 6, wanted less than the target's 6",
    ),
    ({"dflash_config": "block 8"}, "dflash_config: got 'block 8', wanted a mapping"),
    ({"dflash_config": DFLASH | {"mask_token_id": "3"}}, "mask_token_id must be an integer"),
]


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_KIT_STRICT", "1")


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    "draft",
    [
        {},
        # What is not stated, and not guessed either, is not compared.
        {"num_target_layers": None},
        {"block_size": None},
        {"dflash_config": {"mask_token": "[MASK]", "target_layer_ids": [0, 2, 4]}},
    ],
    ids=["whole", "no-layers", "no-block", "mask-by-name"],
)
def test_a_draft_that_fits(start: Callable[..., None], draft: dict[str, Any]) -> None:
    with pytest.raises(InterruptedError):
        start(**draft)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(("draft", "wanted"), MISFITS, ids=lambda value: str(value)[:40])
def test_a_misfit_is_refused(
    start: Callable[..., None], draft: dict[str, Any], wanted: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        start(**draft)
    text = str(ended.value.code)
    assert wanted in text and "the draft's config.json: " in text and "\n" not in text


@pytest.mark.usefixtures("strict")
def test_all_misfits_are_named_at_once(start: Callable[..., None]) -> None:
    with pytest.raises(SystemExit) as ended:
        start(hidden_size=64, block_size=16, num_target_layers=5, dflash_config={})
    assert str(ended.value.code).count("the draft's config.json: ") == 5


@pytest.mark.parametrize("draft", [draft for draft, _ in MISFITS[:4]], ids=str)
def test_without_strict_mode_it_is_sglang_as_it_is(
    start: Callable[..., None], draft: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DFLASH_KIT_STRICT", raising=False)
    with pytest.raises(InterruptedError):
        start(**draft)
