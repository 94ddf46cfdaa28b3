"""Every argument of every profile, read by the real argument parser of every release."""

import json
from typing import Any

import docker
import pytest

from dflash_kit.engine import config
from dflash_kit.paths import RELEASES_FILE
from dflash_kit.profiles.load import load_pair, load_profile, profile_names
from dflash_kit.profiles.pair_check import rope_base
from dflash_kit.releases import catalogue
from tests.e2e.node import built, each

RELEASES = tuple(catalogue.load(RELEASES_FILE).offered)
POINTS = ("latency", "throughput")
# What the engine does with its --config file, up to where it would look at models and devices.
PARSE = """
import argparse, json, os, sys, yaml
from sglang.srt.server_args import ServerArgs
try:
    from sglang.srt.server_args_config_parser import ConfigArgumentMerger
except ModuleNotFoundError:
    from sglang.srt.utils.server_args_config_parser import ConfigArgumentMerger

answers = {}
for name, arguments in json.loads(os.environ["RENDERED"]).items():
    with open("/tmp/engine.yaml", "w") as stream:
        yaml.safe_dump(arguments, stream, sort_keys=False)
    parser = argparse.ArgumentParser(exit_on_error=False)
    ServerArgs.add_cli_args(parser)
    parser.error = lambda message: (_ for _ in ()).throw(ValueError(message))
    try:
        argv = ConfigArgumentMerger(parser).merge_config_with_args(["--config", "/tmp/engine.yaml"])
        parsed = vars(parser.parse_args(argv))
        by_option = {o: a.dest for a in parser._actions for o in a.option_strings}
        answers[name] = {x: parsed[by_option["--" + x]] for x in arguments}
    except (ValueError, KeyError, argparse.ArgumentError) as error:
        answers[name] = str(error)
print("ANSWERS " + json.dumps(answers))
"""
ROPE = """
import json, os
from transformers import Qwen3Config

configs = json.loads(os.environ["RENDERED"])
bases = {name: Qwen3Config(**x).rope_parameters["rope_theta"] for name, x in configs.items()}
print("ANSWERS " + json.dumps(bases))
"""


def asked(release: str, program: str, question: Any) -> Any:
    """What `program` answers to `question` with the Python of the release's image."""
    said = docker.from_env().containers.run(
        built(release),
        ["-c", program],
        entrypoint=["python3"],
        environment={"RENDERED": json.dumps(question), "SGLANG_USE_CPU_ENGINE": "1"},
        remove=True,
    )
    (line,) = [x for x in said.decode().splitlines() if x.startswith("ANSWERS ")]
    return json.loads(line.removeprefix("ANSWERS "))


def rendered(name: str, point: str, release: str) -> dict[str, Any]:
    profile = load_profile(name)
    pair = load_pair(profile.pair)
    return dict(config.render(profile, pair, point, config.REDACTED, release=release).arguments)


@pytest.mark.parametrize("release", each(RELEASES))
def test_the_engine_understands_every_argument(release: str) -> None:
    question = {
        f"{name} {point}": rendered(name, point, release)
        for name in profile_names()
        for point in POINTS
    }
    # The parser can refuse: an unknown name, and a value that is none of its choices.
    good = rendered("b300-x8", "latency", release)
    question["unknown name"] = good | {"speculative-blocksize": 8}
    question["unknown value"] = good | {"attention-backend": "fast"}
    answers = asked(release, PARSE, question)
    assert "speculative-blocksize" in answers.pop("unknown name").replace("_", "-")
    assert "invalid choice: 'fast'" in answers.pop("unknown value")
    for name, answer in answers.items():
        assert answer == question[name], name


def test_the_base_of_the_draft_s_rotary_embedding_is_read_as_transformers_reads_it() -> None:
    yarn = {"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096}
    configs = {
        "beside": {"rope_theta": 50000.0},
        "beside scaling": {"rope_theta": 50000.0, "rope_scaling": yarn},
        "inside": {"rope_parameters": yarn | {"rope_theta": 50000.0}},
        "both": {"rope_theta": 1e6, "rope_scaling": yarn | {"rope_theta": 50000.0}},
    }
    bases = asked(RELEASES[0], ROPE, configs)
    assert bases == {name: rope_base(config) for name, config in configs.items()}
