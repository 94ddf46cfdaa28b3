"""Fixtures of the smoke suite; the suite runs inside `dflash-kit smoke`, against a live engine."""

from functools import cache

import pytest
import requests

from dflash_kit.errors import Undetermined
from dflash_kit.profiles.load import load_pair, load_profile
from dflash_kit.smoke import beside, exact, features
from dflash_kit.smoke.plugin import SUITE, code_of
from dflash_kit.smoke.suite import Check, describe
from dflash_kit.smoke.wanted import load_known_answers

# What of /server_info a receipt keeps: enough to tell two hosts apart, and nothing secret.
FACTS = (
    "version",
    "device",
    "model_path",
    "served_model_name",
    "speculative_algorithm",
    "speculative_draft_model_path",
    "speculative_num_draft_tokens",
    "attention_backend",
    "tp_size",
    "ep_size",
    "context_length",
    "max_running_requests",
    "max_total_num_tokens",
)

# More than any engine generates while a check waits.
LONG_TOKENS = 32768


def pytest_configure(config):
    if SUITE not in config.stash:
        pytest.exit("these tests need an engine: run `dflash-kit smoke`", returncode=2)


@pytest.fixture(scope="session")
def suite(request):
    return request.config.stash[SUITE]


@pytest.fixture
def check(suite, request):
    return Check(suite, code_of(request.node))


@pytest.fixture
def container(suite, check):
    """The engine's container, for a check that needs to see it."""
    if suite.container is None:
        check.skip("asked from outside: the container is not seen")
    return suite.container


@pytest.fixture(scope="session")
def engine(suite):
    return suite.engine


@pytest.fixture(scope="session")
def wanted(suite):
    return suite.wanted


@pytest.fixture(scope="session")
def info(suite, engine):
    """/server_info at the start of the run; what it says of itself goes into the receipt."""
    info = engine.server_info()
    identity = info.get("dflash_kit")
    suite.identity = identity if isinstance(identity, dict) else {}
    suite.facts = {name: info[name] for name in FACTS if info.get(name) is not None}
    suite.profile = suite.profile or suite.identity.get("profile")
    suite.point = suite.point or suite.identity.get("point")
    return info


@pytest.fixture(scope="session")
def identity(suite, info):
    return suite.identity


@pytest.fixture(scope="session")
def profile(suite, info):
    """The profile that was asked for, else the one that the engine reports."""
    if not suite.profile:
        raise Undetermined("the engine reports no profile; give --profile")
    return load_profile(suite.profile)


@pytest.fixture(scope="session")
def dflash_wanted(suite, profile):
    """Whether the point that runs has DFlash on."""
    if suite.point not in profile.points:
        raise Undetermined(f"the engine reports the point {suite.point!r}; give --point")
    return profile.points[suite.point].dflash


@pytest.fixture(scope="session")
def pair(profile):
    return load_pair(profile.pair)


@pytest.fixture(scope="session")
def known(pair):
    return load_known_answers(pair)


@pytest.fixture(scope="session")
def exact_run(engine, known):
    """Function: concurrency -> the run of all exact prompts, generated once."""
    return cache(lambda concurrency: exact.run(engine, known.exact, concurrency))


@pytest.fixture(scope="session")
def unlike_before(engine, known, exact_run):
    """Function: in which way one exact prompt is no longer answered as before; empty if it is."""
    asked = known.exact[0]

    def ask():
        before = exact_run(1).results[0].got
        try:
            got = engine.generate(asked.prompt_text, len(asked.output_ids))["output_ids"]
        except requests.RequestException as error:
            return describe(error, engine)
        return "" if got == before else "another answer"

    return ask


@pytest.fixture
def after_load(engine, unlike_before):
    """Function: what is left of requests that ended early, or is wrong after them; empty if
    nothing is. `before` is the load without them."""

    def ask(before):
        freed = beside.wait_for(lambda: engine.load().within(before), beside.END_SECONDS)
        problem = unlike_before()
        if not problem and not freed:
            problem = (
                f"{engine.load()} still there after {beside.END_SECONDS:.0f} s, before: {before}"
            )
            if before.requests:
                raise Undetermined(f"{problem}; other clients are at work")
        return problem

    return ask


@pytest.fixture(scope="session")
def long_tokens(engine):
    """The length of an answer that no check waits for."""
    return min(engine.context_tokens() // 2, LONG_TOKENS)


@pytest.fixture(scope="session")
def declared(suite, profile, dflash_wanted):
    """Function: feature -> what the release's data say of it at this deployment."""
    release = suite.wanted.release
    return lambda name: features.support(name, release, profile, dflash_wanted)


@pytest.fixture(scope="session")
def arguments(suite, profile, dflash_wanted):
    """The engine's arguments at the point that runs."""
    return profile.engine.arguments | profile.points[suite.point].arguments
