"""Answers are language: no loops, no token again and again, no broken characters."""

import pytest

from dflash_kit.smoke import degenerate

ANSWERS, TOKENS = 3, 96
SAMPLED = {"temperature": 0.8, "top_p": 0.95}


def problems(engine, known):
    """What is degenerate about some known prompts' answers, greedy and sampled."""
    for known_answer in known.answers[:ANSWERS]:
        for how, options in (("greedy", {}), ("sampled", SAMPLED)):
            answer = engine.chat(known_answer.prompt, TOKENS, **options)
            text = answer["choices"][0]["message"]["content"] or ""
            if problem := degenerate.problem(text):
                yield f"{how}: {problem}"
    for exact in known.exact[:ANSWERS]:
        ids = engine.generate(exact.prompt_text, len(exact.output_ids))["output_ids"]
        if problem := degenerate.token_problem(ids):
            yield problem


@pytest.mark.check("repetition")
def test_repetition(check, engine, known):
    found = list(problems(engine, known))
    check(
        ok=not found,
        measured=f"{len(found)} degenerate: {found[0]}" if found else "no loop, no garbage",
        wanted="no loop, no garbage",
        next_step="compare the weights, the dtype and the attention backend with the pair's",
    )
