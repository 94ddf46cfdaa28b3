"""Long prompts and repeated ones: the prefix cache, and the end of the context."""

from dataclasses import replace
from itertools import cycle, islice

import pytest

# A prefill of the whole context takes longer than an ordinary request may.
CONTEXT_SECONDS = 300.0
TOKENS = 32
LEFT_BLOCKS = 2


@pytest.mark.check("prefix-cache")
def test_prefix_cache(check, engine, known, info):
    if info.get("disable_radix_cache"):
        check.skip("the prefix cache is off")
    asked = known.exact[0]
    answers = [engine.generate(asked.prompt_text, len(asked.output_ids)) for _ in range(2)]
    meta, page = answers[1]["meta_info"], info.get("page_size") or 1
    cached, prompt = meta.get("cached_tokens", 0), meta.get("prompt_tokens", 0)
    wanted = "some tokens from the cache, the known answer"
    if prompt <= page and not cached:
        check.undetermined(
            f"a prompt of {prompt} tokens, a page of {page}", wanted, "record a longer known prompt"
        )
    same = all(answer["output_ids"] == asked.output_ids for answer in answers)
    check(
        ok=cached > 0 and same,
        measured=f"{cached} of {prompt} tokens, {'the known' if same else 'another'} answer",
        wanted=wanted,
        next_step="turn the prefix cache off (disable-radix-cache) until the cause is found",
    )


@pytest.mark.check("near-context-limit")
def test_near_context_limit(check, suite, engine, known, pair, info, unlike_before):
    context = engine.context_tokens()
    room = min(context, info.get("max_total_num_tokens") or context)
    prompt = room - LEFT_BLOCKS * pair.match.block_size - TOKENS
    ids = list(islice(cycle(known.exact[0].output_ids), prompt))
    sampling = {"temperature": 0, "max_new_tokens": TOKENS, "ignore_eos": True}
    patient = replace(engine, seconds=max(engine.seconds, CONTEXT_SECONDS))
    answer = patient.post("/generate", {"input_ids": ids, "sampling_params": sampling})
    got = len(answer["output_ids"])
    problem = unlike_before()
    check(
        ok=got == TOKENS and not problem,
        measured=f"{got} tokens after {prompt}, then {problem or 'the same answer as before'}",
        wanted=f"{TOKENS} tokens after {prompt}, then the same answer as before",
        next_step="lower context-length in the profile; see the engine's log",
    )
