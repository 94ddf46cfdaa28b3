"""The known answers are transformers' own: made again with the image's transformers, and equal."""

import json

import docker

from tests.e2e.node import ROOT, image

SCRIPT = """
import sys
from pathlib import Path
tiny = Path("/opt/dflash-kit/models/tiny")
sys.path.insert(0, str(tiny))
from answers import write_known_answers
from corpus import load_corpus
write_known_answers(load_corpus(), tiny / "target", Path("/tmp/answers.json"))
print("ANSWERS" + Path("/tmp/answers.json").read_text())
"""


def test_known_answers_are_transformers_own() -> None:
    said = docker.from_env().containers.run(
        image(),
        ["-W", "ignore", "-c", SCRIPT],
        entrypoint=["python3"],
        environment={"HF_HUB_OFFLINE": "1"},
        remove=True,
    )
    again = json.loads(said.decode().partition("ANSWERS")[2])
    committed = json.loads((ROOT / "models/tiny/known_answers.json").read_text())
    assert len(committed["exact"]) >= 24
    for part in ("answers", "exact"):
        assert again[part] == committed[part]
