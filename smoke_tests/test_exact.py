"""Greedy token ids equal the reference's, and what drafting contributed to them."""

import pytest


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
