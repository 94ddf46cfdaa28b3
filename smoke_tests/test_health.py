"""The engine is there and works at all."""

import time
from dataclasses import replace

import pytest
import requests

from dflash_kit.errors import CheckFailed
from dflash_kit.smoke import readiness
from dflash_kit.smoke.checks import CAN_GENERATE
from dflash_kit.smoke.suite import describe
from dflash_kit.verdicts import Verdict


@pytest.mark.check("auth")
def test_auth(check, engine):
    status = engine.request("GET", "/v1/models", key=engine.keys.user).status_code
    check(
        ok=status not in (401, 403),
        measured=status,
        wanted="not 401 or 403",
        next_step=f"the engine has another user key than the one from {engine.key_source}",
    )


@pytest.mark.check("health")
def test_health(check, engine):
    try:
        measured = engine.request("GET", "/health").status_code
    except requests.RequestException as error:
        measured = describe(error, engine)
    check(ok=measured == 200, measured=measured, wanted=200, next_step="see the engine's log")


@pytest.mark.check("can-generate")
def test_can_generate(check, suite, engine):
    patient = replace(engine, seconds=engine.seconds * readiness.PATIENCE)
    try:
        asked = time.monotonic()
        answer = patient.generate("Hello", 1)
        suite.first_token = time.monotonic() - asked
        measured = f"{answer['meta_info']['completion_tokens']} token"
    except (requests.RequestException, CheckFailed) as error:
        refused = isinstance(error, CheckFailed)
        measured = str(error) if refused else describe(error, patient)
    check(
        ok=measured == "1 token",
        measured=measured,
        wanted="1 token",
        next_step="see the engine's log",
    )


@pytest.mark.check("first-token")
def test_first_token(check, suite):
    limit = readiness.FIRST_TOKEN_SECONDS
    suite.figures["first_token_s"] = round(suite.first_token, 3)
    check(
        ok=suite.first_token <= limit,
        measured=f"{suite.first_token:.1f} s",
        wanted=f"<= {limit:g} s",
        next_step="look at the queue in /metrics, and in the log for kernels that are compiled",
    )


@pytest.mark.check("alive-at-end")
def test_alive_at_end(check, suite, engine):
    wanted = "1 token"
    can_generate = suite.records.get(CAN_GENERATE)
    if can_generate is None or can_generate.verdict is not Verdict.PASS:
        check.undetermined("it never generated", wanted, "see can-generate")
    try:
        measured = f"{engine.generate('Hello', 1)['meta_info']['completion_tokens']} token"
    except (requests.RequestException, CheckFailed) as error:
        measured = str(error) if isinstance(error, CheckFailed) else describe(error, engine)
    check(
        ok=measured == wanted,
        measured=measured,
        wanted=wanted,
        next_step="what was asked last ended the engine: see its log and `docker inspect`",
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
