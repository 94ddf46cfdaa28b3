"""The receipt of a whole run is what the published schema says, and is believed when read."""

import json

import pytest
from fake_faults import Fault
from jsonschema import Draft202012Validator
from smoke_run import PROFILE, few_known_answers, smoke  # noqa: F401

from dflash_kit.paths import ROOT
from dflash_kit.smoke import receipt
from dflash_kit.smoke.checks import Tier, required
from dflash_kit.verdicts import Verdict

SCHEMA = json.loads((ROOT / "docs" / "receipt.schema.json").read_text())


@pytest.mark.parametrize(
    ("fault", "verdict"), [(Fault.NONE, Verdict.PASS), (Fault.PERFECT, Verdict.FAIL)]
)
def test_receipt_of_a_run(fault, verdict):
    asked = {"profile": PROFILE, "deployment": "d1", "image": "sha256:abc"}
    text = receipt.to_json(smoke(fault, asked=asked))
    Draft202012Validator(SCHEMA).validate(json.loads(text))
    read = receipt.load(text, "r.json")
    assert (read.schema_version, read.verdict) == (receipt.SCHEMA_VERSION, verdict)
    assert (read.deployment, read.image) == ("d1", "sha256:abc")
    assert read.required == required(Tier.QUICK) == [check.code for check in read.checks]
