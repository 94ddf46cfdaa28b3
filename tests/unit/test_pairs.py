"""Does a draft fit its target? On real folders with real config.json files."""

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_kit.errors import Undetermined
from dflash_kit.profiles.load import load_pair, load_shape
from dflash_kit.profiles.models import Pair
from dflash_kit.profiles.pair_check import check_pair, pair_problems, rope_base
from dflash_kit.profiles.shape import NOT_IN_CONFIG

TARGET = {"hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 4, "dtype": "bfloat16"}
DRAFT = {
    "block_size": 8,
    "hidden_size": 64,
    "vocab_size": 100,
    "num_target_layers": 4,
    "torch_dtype": "bfloat16",
    "dflash_config": {"mask_token_id": 3, "target_layer_ids": [0, 1, 2]},
}


def make_pair(folder: Path, target: dict[str, Any], draft: dict[str, Any], **match: Any) -> Pair:
    for name, config in (("target", target), ("draft", draft)):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
        (folder / name / "model.safetensors").touch()
    wanted = {
        "block_size": 8,
        "mask_token_id": 3,
        "hidden_size": 64,
        "target_layer_ids": [0, 1, 2],
        "dtype": "bfloat16",
        "vocab_size": 100,
    }
    return Pair.model_validate(
        {
            "name": "p",
            "summary": "s",
            "target": {"path": str(folder / "target")},
            "draft": {"path": str(folder / "draft")},
            "match": wanted | match,
            "acceptance": {"floor": 4.0},
            "known_answers": "none.json",
        }
    )


def test_a_pair_that_fits_has_no_problem(tmp_path: Path) -> None:
    assert pair_problems(make_pair(tmp_path, TARGET, DRAFT)) == []


def test_a_nested_language_model_is_found(tmp_path: Path) -> None:
    assert pair_problems(make_pair(tmp_path, {"text_config": TARGET}, DRAFT)) == []


@pytest.mark.parametrize(
    ("target", "draft", "problem"),
    [
        ({}, {"block_size": 16}, "draft block_size: got 16, wanted 8"),
        ({"hidden_size": 65}, {}, "target hidden_size: got 65, wanted 64"),
        ({}, {"hidden_size": 65}, "draft hidden_size: got 65, wanted 64"),
        ({"vocab_size": 101}, {}, "target vocab_size: got 101, wanted 100"),
        ({}, {"vocab_size": None}, "draft vocab_size: got None, wanted 100"),
        ({}, {"torch_dtype": "float32"}, "draft dtype: got float32, wanted bfloat16"),
        ({"dtype": "float16"}, {}, "target dtype: got float16, wanted bfloat16"),
        ({}, {"num_target_layers": 5}, "draft num_target_layers: got 5, wanted 4"),
        (
            {},
            {"dflash_config": {"mask_token_id": 4, "target_layer_ids": [0, 1, 2]}},
            "draft dflash_config.mask_token_id: got 4, wanted 3",
        ),
        (
            {},
            {"dflash_config": {"mask_token_id": 3, "target_layer_ids": [0, 1]}},
            "draft dflash_config.target_layer_ids: got [0, 1], wanted [0, 1, 2]",
        ),
    ],
)
def test_each_disagreement_is_one_line(
    tmp_path: Path, target: dict[str, Any], draft: dict[str, Any], problem: str
) -> None:
    assert pair_problems(make_pair(tmp_path, TARGET | target, DRAFT | draft)) == [problem]


def test_numbers_that_agree_and_still_cannot_work(tmp_path: Path) -> None:
    draft = DRAFT | {"dflash_config": {"mask_token_id": 100, "target_layer_ids": [0, 4]}}
    problems = pair_problems(
        make_pair(tmp_path, TARGET, draft, mask_token_id=100, target_layer_ids=[0, 4])
    )
    assert len(problems) == 2
    assert "wanted below the target's vocabulary of 100" in problems[0]
    assert "wanted within the target's 4 layers" in problems[1]


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    draft = DRAFT | {"block_size": 16, "hidden_size": 65}
    assert len(pair_problems(make_pair(tmp_path, TARGET, draft))) == 2


def test_missing_parts_of_both_models_are_named(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, TARGET, DRAFT)
    (tmp_path / "target" / "model.safetensors").unlink()
    (tmp_path / "draft" / "config.json").unlink()
    target, draft = pair_problems(pair)
    assert f"target: {tmp_path}/target has no *.safetensors" in target
    assert f"draft: {tmp_path}/draft/config.json cannot be read" in draft


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_config_that_is_no_json_object(tmp_path: Path, text: str) -> None:
    pair = make_pair(tmp_path, TARGET, DRAFT)
    (tmp_path / "draft" / "config.json").write_text(text)
    (problem,) = pair_problems(pair)
    assert "draft/config.json" in problem


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, TARGET, DRAFT)
    gone = pair.model_copy(update={"target": pair.target.model_copy(update={"path": "/gone"})})
    (problem,) = pair_problems(gone)
    assert problem == "target: /gone is missing: wanted a folder with the target model"


@pytest.mark.parametrize(
    ("target", "draft", "said"),
    [
        ({}, {"dflash_config": "none"}, "draft dflash_config.mask_token_id: got None, wanted 3"),
        (
            {},
            {"dflash_config": {"mask_token_id": 3, "target_layer_ids": 1}},
            "draft dflash_config.target_layer_ids: got 1, wanted [0, 1, 2]",
        ),
        ({"text_config": None}, {}, "target hidden_size: got None, wanted 64"),
    ],
)
def test_fields_of_another_kind_are_problems(
    tmp_path: Path, target: dict[str, Any], draft: dict[str, Any], said: str
) -> None:
    assert said in pair_problems(make_pair(tmp_path, TARGET | target, DRAFT | draft))


def test_a_folder_that_cannot_even_be_looked_for(tmp_path: Path) -> None:
    pair = make_pair(tmp_path, TARGET, DRAFT)
    far = pair.model_copy(update={"draft": pair.draft.model_copy(update={"path": "x" * 300})})
    (problem,) = pair_problems(far)
    assert problem.endswith("/config.json cannot be read: File name too long")


KIMI = ("kimi-k2.6-int4", "kimi-k2.6-nvfp4")


def kimi_configs() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two config.json files as Kimi's are: the language model nested, YaRN beside its base."""
    shape, match = load_shape("kimi-k2.6"), load_pair(KIMI[0]).match
    sizes = [x.model_dump(exclude=NOT_IN_CONFIG) for x in (shape.target, shape.draft)]
    draft = sizes[1] | {
        "block_size": match.block_size,
        "vocab_size": match.vocab_size,
        "num_target_layers": shape.target.num_hidden_layers,
        "dtype": match.dtype,
        "rope_theta": 50000.0,
        "rope_scaling": {"rope_type": "yarn", "factor": 64.0},
        "dflash_config": {
            "mask_token_id": match.mask_token_id,
            "target_layer_ids": match.target_layer_ids,
        },
    }
    return {"dtype": match.dtype, "text_config": sizes[0]}, draft


@pytest.mark.parametrize("name", KIMI)
def test_both_checkpoints_of_kimi_fit_their_drafts(name: str) -> None:
    assert check_pair(*kimi_configs(), load_pair(name)) == []


@pytest.mark.parametrize(
    ("role", "change", "problem"),
    [
        ("draft", {"rope_theta": 1e6}, "draft rope_theta: got 1000000.0, wanted 50000.0"),
        ("draft", {"rope_theta": None}, "draft rope_theta: got None, wanted 50000.0"),
        ("draft", {"num_key_value_heads": 16}, "draft num_key_value_heads: got 16, wanted 8"),
        ("target", {"kv_lora_rank": 256}, "target kv_lora_rank: got 256, wanted 512"),
        ("target", {"n_routed_experts": 192}, "target n_routed_experts: got 192, wanted 384"),
    ],
)
def test_kimi_s_sizes_are_those_that_the_plan_computes_with(
    role: str, change: dict[str, Any], problem: str
) -> None:
    target, draft = kimi_configs()
    if role == "draft":
        draft |= change
    else:
        target["text_config"] |= change
    assert check_pair(target, draft, load_pair(KIMI[0])) == [problem]


def test_the_checkpoints_differ_in_all_that_must_be_pinned() -> None:
    int4, nvfp4 = (load_pair(name) for name in KIMI)
    assert int4.match == nvfp4.match and int4.fallback == nvfp4.fallback
    for role in ("target", "draft"):
        ours, theirs = getattr(int4, role), getattr(nvfp4, role)
        assert ours.repository != theirs.repository and ours.folder != theirs.folder
        assert ours.revision != theirs.revision
    for revision in (int4.target.revision, int4.draft.revision, nvfp4.target.revision):
        assert revision is not None and len(revision) == 40


@pytest.mark.parametrize(
    ("config", "base"),
    [
        ({"rope_theta": 5e4}, 5e4),
        ({"rope_theta": 1e6, "rope_parameters": {"rope_theta": 5e4}}, 5e4),
        ({"rope_theta": 5e4, "rope_scaling": {"factor": 64}}, 5e4),
        ({"rope_scaling": {"rope_theta": 1e4}, "rope_parameters": {"rope_theta": 5e4}}, 1e4),
        ({"rope_theta": 5e4, "rope_scaling": None}, 5e4),
        ({"rope_scaling": "yarn"}, None),
        ({}, None),
    ],
)
def test_the_base_of_the_rotary_embedding(config: dict[str, Any], base: float | None) -> None:
    assert rope_base(config) == base


def test_a_pair_without_known_answers_cannot_be_judged_by_them() -> None:
    with pytest.raises(Undetermined, match=r"pair kimi-k2.6-int4: known_answers: none were"):
        _ = load_pair(KIMI[0]).known_answers_file
    assert load_pair("tiny").known_answers_file.name == "known_answers.json"
