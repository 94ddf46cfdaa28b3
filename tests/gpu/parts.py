"""The parts of a run: which engines start together, what is asked of them, and what is wanted."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import checks
import pair
from engine import LARGEST_GRAPH, Engine
from release import Release, crashes
from run import Run, stop
from service import Service
from trees import GUARDED, PATCHED, UNPATCHED, claim_ep

# What these need of flashinfer and peer access is not what is measured.
PARALLEL = (
    *("--tp-size", "2", "--ep-size", "2", "--disable-custom-all-reduce"),
    "--enforce-disable-flashinfer-allreduce-fusion",
)
EAGER, NO_DRAFT = "unpatched-eager", "no-draft"
SERVICE_PORT = 30900
# What patched graphs must at least make of unpatched ones' steps/s, median by median of the rounds.
# It is wanted of a series that takes the host's work out of the step.
LEAST_RATIO = {("kimi-mini", "C=1"): 1.5, ("q8", "C=8"): 1.3}
OUT_OF_STEP = "draft-ahead.patch"
# What a release must at least make of the steps/s of the one beside it.
LEAST_BESIDE = 0.9
# What a step of kimi-mini, one request, may take of the time that the GPU is busy in it.
MOST_OF_BUSY = 1.15
ACCEPTANCE_WITHIN = 0.05


def _wait(engines: Iterable[Engine]) -> None:
    for engine in engines:
        engine.wait()


def against_unpatched(run: Run, model: str, together: bool) -> None:
    """Unpatched and patched in graphs; unpatched eager and no draft; all `together` on the GPU?"""
    starts = {
        UNPATCHED: lambda: run.dummy(UNPATCHED, UNPATCHED, model),
        PATCHED: lambda: run.dummy(PATCHED, PATCHED, model),
        EAGER: lambda: run.dummy(EAGER, UNPATCHED, model, "--disable-cuda-graph"),
        NO_DRAFT: lambda: run.dummy(NO_DRAFT, UNPATCHED, model, draft=False),
    }
    least = LEAST_RATIO if OUT_OF_STEP in run.release.patches else {}
    tokens = compare(run, model, model, starts, together, lambda size: least.get((model, size), 0))
    same = checks.equal(tokens)
    run.note(model, "tokens equal", same, all(same.values()))


def against_release(run: Run, model: str, together: bool) -> None:
    """Two patched releases, each with its draft and without, in graphs."""
    assert run.beside is not None
    part, releases = f"{model}, releases", (run.beside, run.release)

    def start(release: Release, draft: bool) -> Callable[[], Engine]:
        name = f"{release.name}{'' if draft else '-no-draft'}"
        return lambda: run.dummy(name, PATCHED, model, draft=draft, release=release)

    starts = {
        f"{release.name}{'' if draft else '-no-draft'}": start(release, draft)
        for draft in (True, False)
        for release in releases
    }
    tokens = compare(run, part, model, starts, together, lambda size: LEAST_BESIDE)
    for release in releases:
        own = {name: made for name, made in tokens.items() if name.startswith(release.name)}
        same = checks.equal(own)
        run.note(part, f"{release.name}: tokens equal no draft's", same, all(same.values()))
    # Other kernels may choose another of two words that are nearly equal: this is not judged.
    run.note(part, "tokens equal across releases", checks.equal(tokens))


def compare(
    run: Run,
    part: str,
    model: str,
    starts: dict[str, Callable[[], Engine]],
    together: bool,
    least: Callable[[str], float],
) -> dict[str, checks.Tokens]:
    """Speed of four engines, two by two: where a step goes in the first two, a soak of the second.

    Their tokens. The second must make `least` times the steps/s of the first.
    """
    engines: dict[str, Engine] = {}

    def pair_of(names: Sequence[str]) -> list[Engine]:
        if not (together and engines):
            stop(engines.values())
            for name in starts if together else names:
                engines[name] = starts[name]()
        _wait(engines[name] for name in names)
        return [engines[name] for name in names]

    names = list(starts)
    old, new = pair_of(names[:2])
    if together:
        _wait(engines.values())
    figures, tokens = checks.speed([old, new], rounds=5)
    run.note(part, "steps/s", figures)
    for size, theirs in figures[old.name].items():
        rounds = (figures[new.name][size], theirs)
        found = {"median": _ratio(statistics.median, *rounds), "best": _ratio(max, *rounds)}
        run.note(part, f"ratio {size}", found, found["median"] >= least(size))
    _steps(run, part, model, old, new, figures)
    soaked = checks.soak(new)
    run.note(part, "soak", soaked, _clean(soaked))
    more, others = checks.speed(pair_of(names[2:]), rounds=2)
    run.note(part, "steps/s", figures | more)
    stop(engines.values())
    return tokens | others


def _ratio(of: Callable[[list[float]], float], ours: list[float], theirs: list[float]) -> float:
    return round(of(ours) / of(theirs), 3)


def _steps(run: Run, part: str, model: str, old: Engine, new: Engine, figures: Any) -> None:
    """Where a step goes: by CUDA events, and against the time that the GPU is busy."""
    for engine in (old, new):
        for size in (1, LARGEST_GRAPH):
            what = f"{engine.name} C={size}"
            times = engine.graph_times(checks.PROMPTS[:size], checks.TRACED_TOKENS)
            run.note(part, f"{what} events, ms", times)
            trace = checks.profile(engine, size, run.work / f"{model}-{engine.name}-{size}")
            run.note(part, f"{what} trace", trace)
            step = 1e3 / statistics.median(figures[engine.name][f"C={size}"])
            ratio = round(step / trace["gpu_busy_ms"], 3)
            judged = (model, engine, size) == ("kimi-mini", new, 1)
            found = {"step ms": round(step, 3), "of GPU busy": ratio}
            run.note(part, f"{what} step", found, ratio <= MOST_OF_BUSY or not judged)


def _clean(soaked: dict[str, Any]) -> bool:
    passes = soaked["passes"]
    eager = passes.get("draft eager", 0) + passes.get("verify eager", 0)
    return not (soaked["greedy that differ"] or soaked["errors in the log"] or eager)


def expert_parallel(run: Run) -> None:
    """The crash on the unpatched tree, and its absence on the patched one."""
    part, real = "expert parallel", run.gpus > 1
    more, gpus = (PARALLEL, "0,1") if real else ((), "0")
    tree = {name: name if real else _claiming(run, name) for name in (UNPATCHED, PATCHED)}
    run.note(part, "real, on GPUs", run.gpus if real else "no: one GPU, told that it is on")
    model = "kimi-mini"
    new = run.dummy("ep-patched", tree[PATCHED], model, *more, gpus=gpus)
    if crashes(run.release.sglang):
        found = checks.crash(run.dummy("ep-unpatched", tree[UNPATCHED], model, *more, gpus=gpus))
        run.note(part, "unpatched", found, found["crashed"] and found["captures before"] >= 2)
    else:
        run.note(part, "unpatched", f"not run: sglang {run.release.sglang} has no such crash")
    plain = run.dummy("ep-no-draft", tree[PATCHED], model, *more, draft=False, gpus=gpus)
    engines = (new, plain)
    _wait(engines)
    figures, tokens = checks.speed(engines, rounds=2)
    run.note(part, "steps/s", figures)
    same = checks.equal(tokens)
    run.note(part, "tokens equal", same, all(same.values()))
    soaked = checks.soak(new)
    run.note(part, "soak", soaked, _clean(soaked))
    stop(engines)


def _claiming(run: Run, tree: str) -> str:
    """The name of a copy of `tree` that claims expert parallelism on one GPU."""
    name = f"{tree}-claims-ep"
    trees = run.release.trees
    if not (trees / name).exists():
        claim_ep(trees / tree, trees / name)
    return name


def trained_pair(run: Run) -> None:
    """The tiny pair: exact text, real acceptance, with a dense draft and one with experts."""
    part = "tiny pair"
    served = pair.arguments(run.tiny)
    experts = pair.arguments(run.tiny, pair.expert_draft(run.tiny, run.work / "experts"))
    guarded = crashes(run.release.sglang)
    claiming, stale = _claiming(run, PATCHED), _claiming(run, GUARDED if guarded else UNPATCHED)
    uncured = "experts, crash guarded, not cured" if guarded else "experts, unpatched"
    dense = run.engine("tiny", PATCHED, served)
    others = {
        "experts": run.engine("experts", PATCHED, experts, **pair.EXPERT_DRAFT),
        "experts, expert parallel": run.engine(
            "experts-ep", claiming, experts, **pair.EXPERT_DRAFT
        ),
        uncured: run.engine("experts-stale", stale, experts, **pair.EXPERT_DRAFT),
    }
    texts, wanted = pair.exact_prompts(run.tiny)
    again = pair.reference(run.tiny, run.release)
    run.note(
        part, "known answers equal transformers' on this GPU", again == wanted, again == wanted
    )
    dense.wait()
    found = pair.answers(dense, run.tiny)
    exact = found["exact alone"] == found["exact in a batch"] == len(texts)
    near = abs(found["tokens a verify"] / pair.CPU_TOKENS_A_VERIFY - 1) <= ACCEPTANCE_WITHIN
    run.note(part, "answers", found, exact and near and found["exact mixed, of 96"] == 96)
    run.note(part, "tokens a verify", same := pair.acceptance(dense, run.tiny))
    _wait(others.values())
    for name, engine in others.items():
        got = pair.acceptance(engine, run.tiny)
        # The stale count is that of one block, so one request alone does not show it.
        run.note(part, f"tokens a verify, {name}", got, (got == same) == (name != uncured))
    stop([dense, *others.values()])


def refused_starts(run: Run) -> None:
    """Strict mode: each misfit ends the start in one line."""
    starts = {
        word: run.engine(f"misfit-{at}", PATCHED, arguments, **pair.STRICT)
        for at, (word, arguments) in enumerate(pair.misfits(run.tiny, run.work).items())
    }
    for word, engine in starts.items():
        line = engine.refused() or ""
        traced = "Traceback" in engine.text()
        run.note("strict mode", word, line, "refused" in line and word in line and not traced)


def service(run: Run) -> None:
    """The profile of this machine through `dflash-kit serve`, and `dflash-kit smoke` against it."""
    served = Service(run.release, run.work)
    if not (profile := served.profile()):
        run.note("service", "not run", "no profile is made for this machine's GPUs")
        return
    served.start("--profile", profile, "--port", str(SERVICE_PORT))
    try:
        _prove(run, served, profile)
    finally:
        served.stop()


def _prove(run: Run, served: Service, profile: str) -> None:
    run.note("service", f"{profile}: seconds to the first token", served.wait())
    receipt = served.smoke(f"http://127.0.0.1:{SERVICE_PORT}")
    verdicts = {each["code"]: each["verdict"] for each in receipt["checks"]}
    graphs = verdicts["draft-graph"] == verdicts["verify-graph"] == "PASS"
    run.note("service", "receipt", receipt, receipt["verdict"] == "PASS" and graphs)
    measured = receipt["figures"].get("accept_length", 0)
    near = abs(measured / pair.CPU_TOKENS_A_VERIFY - 1) <= ACCEPTANCE_WITHIN
    run.note("service", "accept_length", measured, near)
    code = served.stop()
    run.note("service", "exit code after a stop", code, code == 0)


PARTS = {
    "service": service,
    "strict": refused_starts,
    "pair": trained_pair,
    # Two engines of this shape fill one GPU of 140 GB; four of q8 fit.
    "kimi-mini": lambda run: against_unpatched(run, "kimi-mini", together=False),
    "q8": lambda run: against_unpatched(run, "q8", together=True),
    "expert-parallel": expert_parallel,
}
# These need a release beside the one that is measured.
BESIDE_PARTS = {
    "releases-kimi-mini": lambda run: against_release(run, "kimi-mini", together=False),
    "releases-q8": lambda run: against_release(run, "q8", together=True),
}
