"""What a request may ask of the choice of tokens: sampling, choices, seeds, penalties."""

import pytest

from dflash_kit.smoke import degenerate, exact, features
from dflash_kit.smoke.beside import repeating

# Hot, so that even what was learnt by heart varies; narrow, so that first tokens repeat.
SAMPLED = {"temperature": 5.0, "top_k": 4}
ANSWERS, TOKENS = 8, 32  # more answers than first tokens
SAMPLERS = 4
STRONG = {"frequency_penalty": 2.0, "presence_penalty": 1.0}
MILD = {"repetition_penalty": 1.05}


def wrong_choices(answer, count):
    choices = answer["choices"]
    if len(choices) != count:
        return [f"{len(choices)} choices"]
    problems = []
    if sorted(choice["index"] for choice in choices) != list(range(count)):
        problems.append(f"indices {[choice['index'] for choice in choices]}")
    if not all(choice["finish_reason"] for choice in choices):
        problems.append("a choice without a finish reason")
    return problems


@pytest.mark.check("n-choices")
def test_n_choices(check, engine, known, declared):
    prompt = known.longest.prompt

    def probe():
        return wrong_choices(engine.chat(prompt, TOKENS, n=2, **SAMPLED), 2)

    features.judge(check, declared("n"), probe)


def sample(engine, known, **options):
    """The token ids of one sampled answer."""
    prompt = known.exact[0].prompt_text
    return engine.generate(prompt, TOKENS, **SAMPLED | options)["output_ids"]


@pytest.mark.check("temperature")
def test_temperature(check, engine, known, declared):
    def probe():
        # The first token comes from the prefill: only what follows it shows how decoding chooses.
        rest = {}
        for _ in range(ANSWERS):
            first, *others = sample(engine, known)
            rest.setdefault(first, []).append(others)
        alike = all(same[0] == other for same in rest.values() for other in same)
        return [f"{ANSWERS} answers at {SAMPLED['temperature']} do not differ"] if alike else []

    features.judge(check, declared("sampling"), probe)


@pytest.mark.check("seed")
def test_seed(check, engine, known, declared):
    def probe():
        first, second = (sample(engine, known, sampling_seed=7) for _ in range(2))
        return [] if first == second else ["the same seed gives another answer"]

    if why := declared("sampling").why:
        check.skip(why)
    features.judge(check, declared("seed"), probe)


@pytest.mark.check("min-p")
def test_min_p(check, engine, known, declared):
    def probe():
        # Nothing but the most probable token is as probable as that one.
        greedy = sample(engine, known, temperature=0)
        same = sample(engine, known, min_p=1.0) == greedy
        return [] if same else ["min_p 1 is not greedy"]

    if why := declared("sampling").why:
        check.skip(why)
    features.judge(check, declared("min-p"), probe)


@pytest.mark.check("greedy-beside-sampled")
def test_greedy_beside_sampled(check, engine, known, exact_run):
    alone = [result.got for result in exact_run(1).results]
    with repeating(lambda: sample(engine, known), SAMPLERS):
        beside = exact.run(engine, known.exact, SAMPLERS)
    got = [result.got for result in beside.results]
    same = sum(one == other for one, other in zip(alone, got, strict=True))
    check(
        ok=same == len(alone),
        measured=f"{same} of {len(alone)} equal",
        wanted=f"{len(alone)} of {len(alone)} equal",
        next_step="compare with exact-c4, which has no sampled requests beside it",
    )


@pytest.mark.check("penalties")
def test_penalties(check, engine, known, declared):
    asked = known.longest
    plain = text_of(engine.chat(asked.prompt, asked.room))
    answers = {
        str(options): engine.chat(asked.prompt, asked.room, **options) for options in (MILD, STRONG)
    }
    looping = [options for options, answer in answers.items() if degenerate.loop(text_of(answer))]
    if looping:
        check(
            ok=False,
            measured=f"a loop with {looping[0]}",
            wanted="no loop",
            next_step="do not offer penalties with this release",
        )

    def probe():
        return [] if text_of(answers[str(STRONG)]) != plain else [f"{STRONG} change nothing"]

    features.judge(check, declared("penalties"), probe)


def text_of(answer):
    return answer["choices"][0]["message"]["content"] or ""


@pytest.mark.check("min-tokens")
def test_min_tokens(check, engine, known, declared):
    asked = min(known.answers, key=lambda answer: len(answer.answer))

    def probe():
        answer = engine.chat(asked.prompt, 2 * asked.room, min_tokens=2)
        reason = answer["choices"][0]["finish_reason"]
        return [] if reason == "stop" else [f"min_tokens 2: ended by {reason}"]

    features.judge(check, declared("min-tokens"), probe)
