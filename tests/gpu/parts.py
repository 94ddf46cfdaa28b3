"""The parts of a run: which engines start together, what is asked of them, and what is wanted."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import checks
import pair
import shapes
from engine import DUMMY, LARGEST_GRAPH, Engine
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
LEAST_RATIO = {("kimi-mini", "C=1"): 1.5, ("q8", "C=8"): 1.3}
# What a step of kimi-mini, one request, may take of the time that the GPU is busy in it.
MOST_OF_BUSY = 1.15
ACCEPTANCE_WITHIN = 0.05


class Run:
    """The engines of a run, and its report."""

    def __init__(self, trees: Path, work: Path, tiny: Path, gpus: int) -> None:
        self.trees, self.work, self.tiny, self.gpus = trees, work, tiny, gpus
        self.report: dict[str, Any] = {}
        self.failed: list[str] = []
        self.engines: list[Engine] = []
        shapes.write(work / "models")

    def engine(
        self, name: str, tree: str, arguments: Sequence[str], gpus: str = "0", **variables: str
    ) -> Engine:
        started = Engine(name, self.trees / tree, arguments, self.work, gpus, **variables)
        self.engines.append(started)
        return started

    def dummy(
        self, name: str, tree: str, model: str, *more: str, draft: bool = True, gpus: str = "0"
    ) -> Engine:
        path = self.work / "models" / model
        arguments = ["--model-path", str(path), "--disable-radix-cache", *DUMMY, *more]
        if draft:
            arguments += ["--speculative-algorithm", "DFLASH"]
            arguments += ["--speculative-draft-model-path", f"{path}-dflash"]
        return self.engine(name, tree, arguments, gpus)

    def part(self, name: str) -> None:
        """One of PARTS; an error ends it, and leaves no engine behind."""
        try:
            PARTS[name](self)
        except Exception as error:
            self.note(name, "ended by", f"{type(error).__name__}: {error}", wanted=False)
        finally:
            _stop(self.engines)

    def note(self, part: str, key: str, found: Any, wanted: bool = True) -> None:
        """Keep a finding; one that is not as wanted fails the run."""
        self.report.setdefault(part, {})[key] = found
        print(f"{part}: {key}: {found}{'' if wanted else ': NOT AS WANTED'}", flush=True)
        if not wanted:
            self.failed.append(f"{part}: {key}")


def _wait(engines: Iterable[Engine]) -> None:
    for engine in engines:
        engine.wait()


def _stop(engines: Iterable[Engine]) -> None:
    for engine in engines:
        engine.stop()


def compare(run: Run, model: str, together: bool) -> None:
    """Unpatched and patched in graphs; unpatched eager and no draft; all `together` on the GPU?"""
    starts = {
        UNPATCHED: lambda: run.dummy(UNPATCHED, UNPATCHED, model),
        PATCHED: lambda: run.dummy(PATCHED, PATCHED, model),
        EAGER: lambda: run.dummy(EAGER, UNPATCHED, model, "--disable-cuda-graph"),
        NO_DRAFT: lambda: run.dummy(NO_DRAFT, UNPATCHED, model, draft=False),
    }
    engines: dict[str, Engine] = {}

    def pair_of(*names: str) -> list[Engine]:
        if not (together and engines):
            _stop(engines.values())
            for name in starts if together else names:
                engines[name] = starts[name]()
        _wait(engines[name] for name in names)
        return [engines[name] for name in names]

    old, new = pair_of(UNPATCHED, PATCHED)
    if together:
        _wait(engines.values())
    figures, tokens = checks.speed([old, new], rounds=5)
    run.note(model, "steps/s", figures)
    for size, theirs in figures[UNPATCHED].items():
        rounds = (figures[PATCHED][size], theirs)
        found = {"median": _ratio(statistics.median, *rounds), "best": _ratio(max, *rounds)}
        run.note(model, f"ratio {size}", found, found["median"] >= _least_ratio(model, size))
    _steps(run, model, old, new, figures)
    soaked = checks.soak(new)
    run.note(model, "soak", soaked, _clean(soaked))
    more, others = checks.speed(pair_of(EAGER, NO_DRAFT), rounds=2)
    run.note(model, "steps/s", figures | more)
    same = checks.equal(tokens | others)
    run.note(model, "tokens equal", same, all(same.values()))
    _stop(engines.values())


def _ratio(of: Callable[[list[float]], float], ours: list[float], theirs: list[float]) -> float:
    return round(of(ours) / of(theirs), 3)


def _least_ratio(model: str, size: str) -> float:
    return LEAST_RATIO.get((model, size), 0.0)


def _steps(run: Run, model: str, old: Engine, new: Engine, figures: Any) -> None:
    """Where a step goes: by CUDA events, and against the time that the GPU is busy."""
    for engine in (old, new):
        for size in (1, LARGEST_GRAPH):
            what = f"{engine.name} C={size}"
            times = engine.graph_times(checks.PROMPTS[:size], checks.TRACED_TOKENS)
            run.note(model, f"{what} events, ms", times)
            trace = checks.profile(engine, size, run.work / f"{model}-{engine.name}-{size}")
            run.note(model, f"{what} trace", trace)
            step = 1e3 / statistics.median(figures[engine.name][f"C={size}"])
            ratio = round(step / trace["gpu_busy_ms"], 3)
            judged = (model, engine, size) == ("kimi-mini", new, 1)
            found = {"step ms": round(step, 3), "of GPU busy": ratio}
            run.note(model, f"{what} step", found, ratio <= MOST_OF_BUSY or not judged)


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
    old = run.dummy("ep-unpatched", tree[UNPATCHED], model, *more, gpus=gpus)
    new = run.dummy("ep-patched", tree[PATCHED], model, *more, gpus=gpus)
    found = checks.crash(old)
    run.note(part, "unpatched", found, found["crashed"] and found["captures before"] >= 2)
    plain = run.dummy("ep-no-draft", tree[PATCHED], model, *more, draft=False, gpus=gpus)
    engines = (new, plain)
    _wait(engines)
    figures, tokens = checks.speed(engines, rounds=2)
    run.note(part, "steps/s", figures)
    same = checks.equal(tokens)
    run.note(part, "tokens equal", same, all(same.values()))
    soaked = checks.soak(new)
    run.note(part, "soak", soaked, _clean(soaked))
    _stop(engines)


def _claiming(run: Run, tree: str) -> str:
    """The name of a copy of `tree` that claims expert parallelism on one GPU."""
    name = f"{tree}-claims-ep"
    if not (run.trees / name).exists():
        claim_ep(run.trees / tree, run.trees / name)
    return name


def trained_pair(run: Run) -> None:
    """The tiny pair: exact text, real acceptance, with a dense draft and one with experts."""
    part = "tiny pair"
    served = pair.arguments(run.tiny)
    experts = pair.arguments(run.tiny, pair.expert_draft(run.tiny, run.work / "experts"))
    claiming, guarded = _claiming(run, PATCHED), _claiming(run, GUARDED)
    dense = run.engine("tiny", PATCHED, served)
    others = {
        "experts": run.engine("experts", PATCHED, experts, **pair.EXPERT_DRAFT),
        "experts, expert parallel": run.engine(
            "experts-ep", claiming, experts, **pair.EXPERT_DRAFT
        ),
        "experts, crash guarded, not cured": run.engine(
            "experts-guarded", guarded, experts, **pair.EXPERT_DRAFT
        ),
    }
    texts, wanted = pair.exact_prompts(run.tiny)
    again = pair.reference(run.tiny, run.trees / PATCHED)
    run.note(
        part, "known answers equal transformers' on this GPU", again == wanted, again == wanted
    )
    _wait([dense, *others.values()])
    found = pair.answers(dense, run.tiny)
    exact = found["exact alone"] == found["exact in a batch"] == len(texts)
    near = abs(found["tokens a verify"] / pair.CPU_TOKENS_A_VERIFY - 1) <= ACCEPTANCE_WITHIN
    run.note(part, "answers", found, exact and near and found["exact mixed, of 96"] == 96)
    run.note(part, "tokens a verify", same := pair.acceptance(dense, run.tiny))
    for name, engine in others.items():
        got = pair.acceptance(engine, run.tiny)
        # The stale count is that of one block, so one request alone does not show it.
        cured = engine.name != "experts-guarded"
        run.note(part, f"tokens a verify, {name}", got, (got == same) == cured)
    _stop([dense, *others.values()])


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
    served = Service(run.trees, run.work)
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
    "kimi-mini": lambda run: compare(run, "kimi-mini", together=False),
    "q8": lambda run: compare(run, "q8", together=True),
    "expert-parallel": expert_parallel,
}
