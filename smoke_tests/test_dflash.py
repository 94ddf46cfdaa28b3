"""DFlash is really on, drafts well, and runs in CUDA graphs; or it is really off."""

import pytest

from dflash_kit.errors import CheckFailed
from dflash_kit.profiles.models import NO_ACCELERATOR

ALGORITHM = "DFLASH"
PASSES = "sglang:cuda_graph_passes_total"


@pytest.mark.check("dflash")
def test_dflash(check, info, dflash_wanted, exact_run):
    algorithm = info.get("speculative_algorithm")
    passes = exact_run(1).verify_passes
    on = algorithm == ALGORITHM and passes > 0
    off = algorithm is None and passes == 0
    check(
        ok=on if dflash_wanted else off,
        measured=f"{algorithm or 'off'}, {passes} verify passes",
        wanted=f"{ALGORITHM}, verify passes" if dflash_wanted else "off, 0 verify passes",
        next_step="start the engine by `dflash-kit serve` at the wanted point",
    )


@pytest.mark.check("accept-length")
def test_accept_length(check, suite, dflash_wanted, pair, exact_run):
    if not dflash_wanted:
        check.skip("DFlash is off at this point")
    run, block, floor = exact_run(1), pair.match.block_size, pair.acceptance.floor
    wanted = f">= {floor:.2f}, not all of {block}"
    if not run.verify_passes:
        check.undetermined("no verify pass", wanted, "see the check dflash")
    drafted = run.verify_passes * (block - 1)
    suite.figures["accept_length"] = round(run.accept_length, 3)
    suite.figures["accept_rate"] = round((run.tokens - run.verify_passes) / drafted, 3)
    suite.accept_by_position = run.accept_by_position
    perfect = run.verify_passes <= run.least_passes(block)
    check(
        ok=run.accept_length >= floor and not perfect,
        measured=f"{run.accept_length:.2f}" + (": no draft was ever rejected" if perfect else ""),
        wanted=wanted,
        next_step="acceptance is faked (SGLANG_SIMULATE_ACC_LEN, dummy weights)"
        if perfect
        else "check the draft's weights, RoPE base and target layers against the pair",
    )


@pytest.mark.check("draft-graph")
def test_draft_graph(check, engine, profile, dflash_wanted, known):
    if not dflash_wanted:
        check.skip("DFlash is off at this point")
    judge_passes(check, profile, lambda: draft_passes(engine), engine, known)


@pytest.mark.check("verify-graph")
def test_verify_graph(check, engine, profile, known):
    judge_passes(check, profile, lambda: target_passes(engine), engine, known)


def draft_passes(engine):
    """(in graphs, eager) as the release's own counter says; None where it is not reported."""
    passes = engine.server_info()["internal_states"][0].get("draft_passes")
    return passes and (passes["cuda_graph"], passes["eager"])


def target_passes(engine):
    """(in graphs, eager) as /metrics says; None where it is not reported."""
    try:
        samples = engine.metrics()
    except CheckFailed:
        return None
    counted = {key: value for key, value in samples.items() if key.startswith(PASSES)}
    modes = [
        sum(value for key, value in counted.items() if f'mode="{mode}"' in key)
        for mode in ("decode_cuda_graph", "decode_none")
    ]
    return tuple(modes) if counted else None


def judge_passes(check, profile, count, engine, known):
    """One exact prompt more: graph passes must have grown, eager ones must not."""
    before = count()
    engine.generate(known.exact[0].prompt_text, len(known.exact[0].output_ids))
    after = count()
    if before is None or after is None:
        measured = "not reported"
    else:
        graphs, eager = (now - then for now, then in zip(after, before, strict=True))
        measured = f"{graphs:.0f} in graphs, {eager:.0f} eager"
    if profile.hardware.accelerator == NO_ACCELERATOR:
        check.skip(f"no GPU ({measured})")
    wanted = "some in graphs, 0 eager"
    if measured == "not reported":
        check.undetermined(measured, wanted, "deploy a release that counts passes")
    check(
        ok=graphs > 0 and eager == 0,
        measured=measured,
        wanted=wanted,
        next_step="look for 'disabled' and 'fallback' in the engine's log since its start",
    )
