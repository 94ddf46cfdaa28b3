"""The committed tiny pair fits together: configs, weights, corpus and known answers. No torch."""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from dflash_kit.paths import ROOT

PAIR = ROOT / "models" / "tiny"
MEGABYTE = 1_000_000
DTYPE_BYTES = {"BF16": 2}


def read_json(name: str) -> Any:
    return json.loads((PAIR / name).read_text(encoding="utf-8"))


def read_header(path: Path) -> dict[str, Any]:
    """The JSON header of a safetensors file: name -> dtype, shape, data_offsets."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return dict(header)


def layer_shapes(config: dict[str, Any], prefix: str) -> dict[str, list[int]]:
    """Names and shapes of all decoder layers of a Qwen3-like model."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries = config["num_attention_heads"] * head
    keys = config["num_key_value_heads"] * head
    one = {
        "input_layernorm": [hidden],
        "post_attention_layernorm": [hidden],
        "self_attn.q_proj": [queries, hidden],
        "self_attn.k_proj": [keys, hidden],
        "self_attn.v_proj": [keys, hidden],
        "self_attn.o_proj": [hidden, queries],
        "self_attn.q_norm": [head],
        "self_attn.k_norm": [head],
        "mlp.gate_proj": [inner, hidden],
        "mlp.up_proj": [inner, hidden],
        "mlp.down_proj": [hidden, inner],
    }
    return {
        f"{prefix}layers.{number}.{name}.weight": shape
        for number in range(config["num_hidden_layers"])
        for name, shape in one.items()
    }


@pytest.fixture(scope="module")
def target() -> dict[str, Any]:
    return dict(read_json("target/config.json"))


@pytest.fixture(scope="module")
def draft() -> dict[str, Any]:
    return dict(read_json("draft/config.json"))


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    return dict(read_json("known_answers.json"))


def test_configs_agree_on_what_the_draft_shares_with_the_target(
    target: dict[str, Any], draft: dict[str, Any]
) -> None:
    shared = ("hidden_size", "vocab_size", "max_position_embeddings", "rope_parameters")
    assert {k: draft[k] for k in shared} == {k: target[k] for k in shared}
    assert draft["num_target_layers"] == target["num_hidden_layers"]
    assert target["architectures"] == ["Qwen3ForCausalLM"]
    assert draft["architectures"] == ["DFlashDraftModel"]
    assert target["dtype"] == draft["dtype"] == "bfloat16"
    assert target["max_position_embeddings"] == 2048


def test_draft_config_names_block_mask_and_layers(
    target: dict[str, Any], draft: dict[str, Any]
) -> None:
    dflash = draft["dflash_config"]
    layers = dflash["target_layer_ids"]
    assert draft["block_size"] == 8
    assert layers == sorted(set(layers))
    assert all(0 <= layer < target["num_hidden_layers"] for layer in layers)
    added = {t["content"]: t["id"] for t in read_json("target/tokenizer.json")["added_tokens"]}
    assert dflash["mask_token_id"] == added["<|mask|>"] < target["vocab_size"]


def test_draft_states_its_rope_base_only_as_transformers_5_does(draft: dict[str, Any]) -> None:
    assert "rope_theta" not in draft
    assert draft["rope_parameters"]["rope_theta"] != 1_000_000


def test_target_stops_at_the_end_of_a_turn(target: dict[str, Any]) -> None:
    added = {t["content"]: t["id"] for t in read_json("target/tokenizer.json")["added_tokens"]}
    assert read_json("target/generation_config.json")["eos_token_id"] == added["<|im_end|>"]
    assert target["eos_token_id"] == added["<|im_end|>"]
    assert (PAIR / "target/chat_template.jinja").is_file()


def test_target_weights_are_complete(target: dict[str, Any]) -> None:
    embedding = [target["vocab_size"], target["hidden_size"]]
    wanted = layer_shapes(target, "model.") | {
        "model.embed_tokens.weight": embedding,
        "lm_head.weight": embedding,
        "model.norm.weight": [target["hidden_size"]],
    }
    header = read_header(PAIR / "target/model.safetensors")
    assert {name: entry["shape"] for name, entry in header.items()} == wanted


def test_draft_weights_are_complete(draft: dict[str, Any]) -> None:
    hidden = draft["hidden_size"]
    features = len(draft["dflash_config"]["target_layer_ids"]) * hidden
    wanted = layer_shapes(draft, "") | {
        "fc.weight": [hidden, features],
        "hidden_norm.weight": [hidden],
        "norm.weight": [hidden],
    }
    header = read_header(PAIR / "draft/model.safetensors")
    assert {name: entry["shape"] for name, entry in header.items()} == wanted


@pytest.mark.parametrize(("name", "least", "most"), [("target", 1.0, 3.0), ("draft", 0.3, 2.0)])
def test_weight_files_are_small_bfloat16_and_whole(name: str, least: float, most: float) -> None:
    path = PAIR / name / "model.safetensors"
    header = read_header(path)
    assert {entry["dtype"] for entry in header.values()} == {"BF16"}
    sizes = [math.prod(e["shape"]) * DTYPE_BYTES[e["dtype"]] for e in header.values()]
    with path.open("rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
    assert path.stat().st_size == 8 + header_bytes + sum(sizes)
    assert least * MEGABYTE <= path.stat().st_size <= most * MEGABYTE


def test_known_answers_are_the_corpus(known: dict[str, Any]) -> None:
    text = (PAIR / "corpus.txt").read_text(encoding="utf-8")
    parts = re.split(r"^Q: ", text, flags=re.MULTILINE)[1:]
    corpus = {question: answer.strip() for question, answer in (p.split("\n", 1) for p in parts)}
    corpus.pop("*")
    answers = {entry["prompt"]: entry["answer"] for entry in known["answers"]}
    assert answers == corpus
    assert len(answers) == len(known["answers"]) >= 24


def test_exact_prompts_are_templated_and_have_64_ids(
    known: dict[str, Any], target: dict[str, Any]
) -> None:
    exact = known["exact"]
    assert len({entry["prompt_text"] for entry in exact}) == len(exact) == 24
    for entry in exact:
        assert entry["prompt_text"].endswith("<|im_end|>\n<|im_start|>assistant\n")
        assert len(entry["output_ids"]) == 64
        assert all(0 <= number < target["vocab_size"] for number in entry["output_ids"])


def test_exact_prompts_differ_in_kind_and_outcome(known: dict[str, Any]) -> None:
    assert len({entry["kind"] for entry in known["exact"]}) == 6
    assert len({tuple(entry["output_ids"]) for entry in known["exact"]}) >= 12


def test_every_choice_has_the_stated_margin(known: dict[str, Any]) -> None:
    margin = known["margin"]
    assert margin["wanted"] >= 2.0
    assert margin["answers"] >= margin["wanted"]
    assert margin["exact"] >= margin["wanted"]
