"""Prove that each patch is needed, stands alone, and does what it says.

    check.py prepare --release-dir DIR --wheel FILE --out TREES  (git; this kit's package)
    check.py run --trees TREES [--python PYTHON] [--json]        (a Python with the engine's wheels)

`prepare` makes three kinds of source trees: patched (the whole series), unpatched (the wheel),
and one without-<patch> for each patch, the whole series less that one, or only what comes before
it where a later patch builds on it. `run` takes the test of each patch through them: it has to pass
on the first, to fail on the second, and to fail on the third as the test's own WITHOUT says. A file
that two trees have alike is one file with two names, so that what Python compiles of it on the
first two serves the others. Exit codes: 0 all as wanted, 1 not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import ast
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).resolve().parent
PATCHED, UNPATCHED, WITHOUT = "patched", "unpatched", "without-"


@dataclass(frozen=True)
class Outcome:
    """What the tests of one patch did on one tree: how many, and what the failed ones said."""

    ran: int
    failures: str
    seconds: float


@dataclass(frozen=True)
class Row:
    """A line of the table; a cell that is not as wanted begins with FAIL."""

    patch: str
    unpatched: str
    without: str
    patched: str
    seconds: float

    @property
    def as_wanted(self) -> bool:
        return not any("FAIL" in cell for cell in (self.unpatched, self.without, self.patched))


def prepare(release_dir: Path, wheel: Path, out: Path) -> None:
    """Write all trees below `out`; dflash_kit's ReleaseError where a patch does not apply."""
    from dflash_kit.releases import assemble, series

    def make(tree: str, patches: list[str]) -> None:
        # git apply never writes into a file: it makes a new one of the same name.
        shutil.copytree(out / UNPATCHED, out / tree, copy_function=os.link)
        series.apply(release_dir, patches, out / tree)

    names = series.names(release_dir)
    assemble.make_tree(release_dir, wheel, [], (), out / UNPATCHED)
    make(PATCHED, names)
    for at, name in enumerate(names):
        tree = WITHOUT + Path(name).stem
        try:
            make(tree, names[:at] + names[at + 1 :])
        except series.ReleaseError:
            shutil.rmtree(out / tree)
            make(tree, names[:at])
        _share(out / tree, out / PATCHED)


def _share(tree: Path, other: Path) -> None:
    """Make files that `other` has with the same content names of those."""
    for file, theirs in _sources(tree, other):
        if not file.samefile(theirs) and filecmp.cmp(file, theirs, shallow=False):
            file.unlink()
            os.link(theirs, file)


def _sources(tree: Path, other: Path) -> Iterator[tuple[Path, Path]]:
    """The Python files of `tree`, each with that of the same name in `other`."""
    for file in tree.rglob("*.py"):
        theirs = other / file.relative_to(tree)
        if theirs.exists():
            yield file, theirs


def share_bytecode(trees: Path) -> None:
    """Give each tree what Python has compiled of its files in the first two."""
    for tree in trees.glob(f"{WITHOUT}*"):
        for other in (PATCHED, UNPATCHED):
            for file, theirs in _sources(tree, trees / other):
                compiled = Path(cache_from_source(str(theirs)))
                mine = Path(cache_from_source(str(file)))
                if file.samefile(theirs) and compiled.exists() and not mine.exists():
                    mine.parent.mkdir(exist_ok=True)
                    os.link(compiled, mine)


def drop_bytecode(trees: Path) -> None:
    """Remove all that Python has compiled."""
    for folder in [*trees.rglob("__pycache__")]:
        shutil.rmtree(folder)


def patches_of(trees: Path) -> list[str]:
    """The patches for which `trees` was prepared."""
    return sorted(tree.name.removeprefix(WITHOUT) for tree in trees.glob(f"{WITHOUT}*"))


def test_file(patch: str) -> Path:
    return HERE / f"test_{patch.replace('-', '_')}.py"


def declared_failure(test: Path) -> str:
    """The regular expression that a test module declares as WITHOUT; ValueError if it has none."""
    for node in ast.parse(test.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "WITHOUT":
            return str(ast.literal_eval(node.value))
    raise ValueError(f"{test}: has no WITHOUT, wanted the failure where its patch is missing")


class Forks:
    """forks.py with one Python, which runs tests in forks of itself, one after the other."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", HERE / "forks.py"],
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, job: dict[str, object]) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != "done\n":
            raise RuntimeError(f"forks.py ended with {self._process.wait()}")

    def end(self) -> None:
        self._process.communicate()


def run_tests(forks: Forks, tree: Path, tests: list[Path]) -> dict[str, Outcome]:
    """Run test files in one process against `tree`; what each did, by file name without .py."""
    with tempfile.TemporaryDirectory() as scratch:
        report, said = Path(scratch) / "report.xml", Path(scratch) / "said"
        # No settings of a project around it: the image has the tests alone.
        options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(HERE)]
        options += ["--continue-on-collection-errors", f"--junitxml={report}"]
        job = {"tree": str(tree), "tests": [str(test) for test in tests], "options": options}
        started = time.monotonic()
        forks.run(job | {"cwd": scratch, "said": str(said)})
        seconds = time.monotonic() - started
        if not report.exists():
            return {test.stem: Outcome(0, said.read_text().strip(), seconds) for test in tests}
        cases = list(ET.parse(report).iter("testcase"))
    return {test.stem: _outcome(test.stem, cases, seconds / len(tests)) for test in tests}


def _outcome(stem: str, cases: list[ET.Element], seconds: float) -> Outcome:
    # A module that cannot be imported is one case, named after the module.
    mine = [case for case in cases if stem in (case.get("classname"), case.get("name"))]
    said = [
        f"{case.get('name')}: {result.get('message')}\n{result.text}"
        for case in mine
        for result in case
        if result.tag in ("failure", "error", "skipped")
    ]
    return Outcome(len(mine), "\n".join(said), seconds)


def judge(patch: str, on: dict[str, Outcome]) -> Row:
    """The table's line for a patch from what its tests did on each kind of tree."""
    without = on[WITHOUT + patch]
    if not without.failures:
        second = _no_failure(without)
    elif not re.search(declared_failure(test_file(patch)), without.failures):
        second = f"FAIL: got {_last_line(without.failures)}, wanted what WITHOUT declares"
    else:
        second = "fails as declared"
    patched = on[PATCHED]
    if patched.failures or not patched.ran:
        third = f"FAIL: {_last_line(patched.failures) or 'no test ran'}"
    else:
        third = f"passes ({patched.ran} tests)"
    return Row(
        patch=patch,
        unpatched="fails" if on[UNPATCHED].failures else _no_failure(on[UNPATCHED]),
        without=second,
        patched=third,
        seconds=round(sum(outcome.seconds for outcome in on.values()), 1),
    )


def _no_failure(outcome: Outcome) -> str:
    return "FAIL: passes" if outcome.ran else "FAIL: no test ran"


def _last_line(text: str) -> str:
    errors = [line for line in text.splitlines() if line.startswith("E  ")]
    lines = errors or text.splitlines()
    return lines[-1].removeprefix("E").strip() if lines else ""


def run(trees: Path, python: str) -> list[Row]:
    """Take every patch through its trees, a process for each tree, as many at once as there are
    cores."""
    patches = patches_of(trees)
    tests = [test_file(patch) for patch in patches]
    first = {tree: tests for tree in (PATCHED, UNPATCHED)}
    then = {WITHOUT + patch: [test_file(patch)] for patch in patches}
    forks = [Forks(python) for _ in range(os.cpu_count() or 1)]
    try:
        done = _run_each(trees, forks, first)
        share_bytecode(trees)
        done |= _run_each(trees, forks, then)
    finally:
        drop_bytecode(trees)
        for fork in forks:
            fork.end()
    return [
        judge(
            patch,
            {
                tree: done[tree][test_file(patch).stem]
                for tree in (PATCHED, UNPATCHED, WITHOUT + patch)
            },
        )
        for patch in patches
    ]


def _run_each(
    trees: Path, forks: list[Forks], work: dict[str, list[Path]]
) -> dict[str, dict[str, Outcome]]:
    idle: SimpleQueue[Forks] = SimpleQueue()
    for fork in forks:
        idle.put(fork)

    def one(tree: str) -> dict[str, Outcome]:
        mine = idle.get()
        try:
            return run_tests(mine, trees / tree, work[tree])
        finally:
            idle.put(mine)

    with ThreadPoolExecutor(len(forks)) as pool:
        return dict(zip(work, pool.map(one, work), strict=True))


def table(rows: list[Row]) -> str:
    cells = [("patch", "unpatched", "without it", "patched", "seconds")]
    cells += [(r.patch, r.unpatched, r.without, r.patched, f"{r.seconds:.1f}") for r in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    prepared = commands.add_parser("prepare")
    for name in ("release-dir", "wheel", "out"):
        prepared.add_argument(f"--{name}", type=Path, required=True)
    running = commands.add_parser("run")
    running.add_argument("--trees", type=Path, required=True)
    running.add_argument("--python", default=sys.executable)
    running.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.command == "prepare":
        prepare(given.release_dir, given.wheel, given.out)
        return 0
    if not patches_of(given.trees):
        parser.error(f"--trees {given.trees}: holds no {WITHOUT}* folder; run prepare first")
    rows = run(given.trees.resolve(), given.python)
    print(json.dumps([asdict(row) for row in rows], indent=2) if given.json else table(rows))
    return 0 if all(row.as_wanted for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
