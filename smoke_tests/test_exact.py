"""Greedy token ids equal the reference's, and what drafting contributed to them."""

from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest

from dflash_kit.releases import engine_data
from dflash_kit.smoke import exact
from dflash_kit.smoke.beside import repeating

SAMPLERS = 2
SAMPLED = {"temperature": 1.0, "top_k": 8}
STAGGER_SECONDS = 0.01


def judge_exact(check, suite, run, concurrency):
    suite.figures[f"tok_s_c{concurrency}"] = round(run.tokens / run.seconds, 1)
    wrong = [(at, r.difference) for at, r in enumerate(run.results) if r.difference is not None]
    count = len(run.results)
    measured = f"{count - len(wrong)} of {count} equal"
    check(
        ok=not wrong,
        measured=measured + ("; prompt {} from token {}".format(*wrong[0]) if wrong else ""),
        wanted=f"{count} of {count} equal",
        next_step="compare weights and dtype with the pair's; right at the point throughput alone: "
        "see DFlash",
    )


@pytest.mark.check("exact-c1")
def test_exact_one_at_a_time(check, suite, exact_run):
    judge_exact(check, suite, exact_run(1), 1)


@pytest.mark.check("exact-c4")
def test_exact_four_at_a_time(check, suite, exact_run):
    judge_exact(check, suite, exact_run(4), 4)


def wide_run(engine, known, concurrency):
    """The exact prompts again and again, until each slot had two of them."""
    times = -(-2 * concurrency // len(known.exact))
    return exact.run(engine, known.exact * times, concurrency)


@pytest.mark.check("exact-c8")
def test_exact_eight_at_a_time(check, suite, engine, known):
    judge_exact(check, suite, wide_run(engine, known, 8), 8)


@pytest.mark.check("exact-c32")
def test_exact_32_at_a_time(check, suite, engine, known):
    judge_exact(check, suite, wide_run(engine, known, 32), 32)


@pytest.mark.check("exact-mixed")
def test_exact_mixed(check, engine, known, info, wanted):
    graphs = engine_data.load(wanted.release).graph_sizes
    size = max(exact.padded_size(info, graphs) - SAMPLERS, 1)

    def one(numbered):
        at, asked = numbered
        # Each starts later than the one before and is shorter: the batch grows, and then shrinks.
        sleep(at % size * STAGGER_SECONDS)
        count = max(len(asked.output_ids) * (size - at % size) // size, 1)
        got = engine.generate(asked.prompt_text, count)["output_ids"]
        return at, got == asked.output_ids[:count]

    def sample():
        engine.generate(known.exact[0].prompt_text, len(known.exact[0].output_ids), **SAMPLED)

    asked, answers = list(enumerate(known.exact)), []
    with repeating(sample, SAMPLERS), ThreadPoolExecutor(size) as pool:
        for wave in range(0, len(asked), size):
            answers += pool.map(one, asked[wave : wave + size])
    wrong = [at for at, right in answers if not right]
    count = len(answers)
    check(
        ok=not wrong,
        measured=f"{count - len(wrong)} of {count} equal"
        + (f"; prompt {wrong[0]}" if wrong else ""),
        wanted=f"{count} of {count} equal",
        next_step="right in exact-c1: batches that are padded or shrink are wrong; see DFlash",
    )
