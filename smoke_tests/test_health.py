"""The engine is there and works at all."""

import pytest
import requests

from dflash_kit.errors import CheckFailed
from dflash_kit.smoke.suite import describe


@pytest.mark.check("health")
def test_health(check, engine):
    try:
        measured = engine.request("GET", "/health").status_code
    except requests.RequestException as error:
        measured = describe(error, engine)
    check(ok=measured == 200, measured=measured, wanted=200, next_step="see the engine's log")


@pytest.mark.check("can-generate")
def test_can_generate(check, engine):
    try:
        answer = engine.generate("Hello", 1)
        measured = f"{answer['meta_info']['completion_tokens']} token"
    except (requests.RequestException, CheckFailed) as error:
        refused = isinstance(error, CheckFailed)
        measured = str(error) if refused else describe(error, engine)
    check(
        ok=measured == "1 token",
        measured=measured,
        wanted="1 token",
        next_step=f"see the engine's log; the keys came from {engine.key_source}",
    )


@pytest.mark.check("models")
def test_models(check, engine):
    models = engine.get("/v1/models").json()["data"]
    named = [model["id"] for model in models if model.get("id") and model.get("max_model_len")]
    check(
        ok=len(named) == len(models) > 0,
        measured=", ".join(named) or f"{len(models)} models, none with an id and a length",
        wanted="id and length",
        next_step="see /v1/models",
    )
