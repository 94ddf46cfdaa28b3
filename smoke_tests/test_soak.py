"""Hours of churn: nothing wrong, nothing dead, nothing that creeps."""

import pytest

from dflash_kit.smoke import soak


@pytest.mark.check("soak")
def test_soak(check, suite, known):
    result = soak.run(suite, known)
    suite.figures |= {
        "soak_hours": round(result.seconds / 3600, 4),
        "soak_requests": result.requests,
        "soak_steps": result.steps,
    }
    least = int(result.seconds * soak.LEAST_STEPS_S)
    measured = f"{result.requests} requests, {result.steps} decode steps in {result.shown}"
    wanted = f"{suite.hours:g} h, at least {least} steps, nothing wrong"
    if result.problem:
        check(
            ok=False,
            measured=f"{result.problem}; {measured}",
            wanted=wanted,
            next_step="see the engine's log and dmesg at that time; do not roll this out further",
        )
    if result.interrupted:
        check.undetermined(f"interrupted; {measured}", wanted, "let it run to its end")
    check(
        ok=result.steps >= least,
        measured=measured,
        wanted=wanted,
        next_step="the engine hardly worked: see its log and metrics",
    )
