"""Does a draft fit its target? Read from the two config.json files, before anything is started."""

import json
from typing import Any

from dflash_kit.profiles.load import load_shape
from dflash_kit.profiles.models import Model, Pair
from dflash_kit.profiles.shape import NOT_IN_CONFIG, Shape

Config = dict[str, Any]


def pair_problems(pair: Pair) -> list[str]:
    """Everything wrong with the models of `pair` as they lie on the disk; empty if they fit."""
    configs: list[Config] = []
    problems: list[str] = []
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        config, wrong = _read_model(role, model)
        configs.append(config)
        problems += wrong
    return problems or check_pair(configs[0], configs[1], pair)


def check_pair(target: Config, draft: Config, pair: Pair) -> list[str]:
    """Compare the contents of two config.json files with each other and with the pair's file.

    One line a problem: model, field, got, wanted.
    """
    text = _mapping(target.get("text_config", target))  # multimodal: the language model is nested
    dflash = _mapping(draft.get("dflash_config"))
    match = pair.match
    facts = [
        ("draft block_size", draft.get("block_size"), match.block_size),
        ("draft dflash_config.mask_token_id", dflash.get("mask_token_id"), match.mask_token_id),
        (
            "draft dflash_config.target_layer_ids",
            dflash.get("target_layer_ids"),
            match.target_layer_ids,
        ),
        ("target hidden_size", text.get("hidden_size"), match.hidden_size),
        ("draft hidden_size", draft.get("hidden_size"), match.hidden_size),
        ("target vocab_size", text.get("vocab_size"), match.vocab_size),
        ("draft vocab_size", draft.get("vocab_size"), match.vocab_size),
        ("target dtype", _dtype(text) or _dtype(target), match.dtype),
        ("draft dtype", _dtype(draft), match.dtype),
        ("draft num_target_layers", draft.get("num_target_layers"), text.get("num_hidden_layers")),
    ]
    if match.rope_theta is not None:
        facts.append(("draft rope_theta", rope_base(draft), match.rope_theta))
    if pair.shape is not None:
        facts += _shape_facts(load_shape(pair.shape), text, draft)
    problems = [f"{field}: got {got}, wanted {want}" for field, got, want in facts if got != want]
    return problems + _out_of_range(dflash, text)


def rope_base(config: Config) -> Any:
    """The base of the rotary embedding as transformers 5 reads it from a config.json.

    The base inside rope_scaling or rope_parameters wins over the one beside it.
    """
    scaling = _mapping(config.get("rope_scaling") or config.get("rope_parameters"))
    return scaling.get("rope_theta", config.get("rope_theta"))


def _shape_facts(shape: Shape, text: Config, draft: Config) -> list[tuple[str, Any, Any]]:
    """The sizes that the plan computes with, against those of the models themselves."""
    sizes = [("target", text, shape.target), ("draft", draft, shape.draft)]
    return [
        (f"{role} {field}", config.get(field), wanted)
        for role, config, model in sizes
        for field, wanted in model.model_dump(exclude=NOT_IN_CONFIG).items()
    ]


def _out_of_range(dflash: Config, text: Config) -> list[str]:
    """Numbers that agree with the pair's file and still cannot work with this target."""
    problems = []
    mask, vocabulary = dflash.get("mask_token_id"), text.get("vocab_size")
    if isinstance(mask, int) and isinstance(vocabulary, int) and mask >= vocabulary:
        problems.append(
            f"draft dflash_config.mask_token_id: got {mask}, wanted below the target's "
            f"vocabulary of {vocabulary}"
        )
    depth = text.get("num_hidden_layers")
    layers = dflash.get("target_layer_ids")
    if (
        isinstance(depth, int)
        and isinstance(layers, list)
        and any(layer not in range(depth) for layer in layers)
    ):
        problems.append(
            f"draft dflash_config.target_layer_ids: got {layers}, wanted within the target's "
            f"{depth} layers (0 to {depth - 1})"
        )
    return problems


def _mapping(value: Any) -> Config:
    """What is no mapping has no fields: each of them is then a problem of its own."""
    return value if isinstance(value, dict) else {}


def _dtype(config: Config) -> Any:
    # transformers 5 writes `dtype`, older releases `torch_dtype`.
    return config.get("dtype") or config.get("torch_dtype")


def _read_model(role: str, model: Model) -> tuple[Config, list[str]]:
    folder = model.folder
    file = folder / "config.json"
    try:
        if not folder.is_dir():
            return {}, [f"{role}: {folder} is missing: wanted a folder with the {role} model"]
        config = json.loads(file.read_text())
    except OSError as error:
        return {}, [f"{role}: {file} cannot be read: {error.strerror}"]
    except ValueError as error:
        return {}, [f"{role}: {file} is not JSON: {error}"]
    if not isinstance(config, dict):
        return {}, [f"{role}: {file} holds no object"]
    if not any(folder.glob("*.safetensors")):
        return config, [f"{role}: {folder} has no *.safetensors: the weights are missing"]
    return config, []
