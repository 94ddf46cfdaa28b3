"""What each playbook of the tests printed at its end, kept for whoever wants to read it.

python -m tests.e2e.fleet.record                  # the last run as a table
python -m tests.e2e.fleet.record --keep FOLDER    # it in FOLDER, its table in README.md there
--plays FILE: another run than the last one
"""

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

from tests.e2e.node import ROOT

FILE = ROOT / "build" / "rollout" / "plays.jsonl"
_HEAD = "| case | command | exit | s | what it printed |\n|---|---|---|---|---|"
_LONGEST = 240
# The registry's address is another one in each run.
_REGISTRY = re.compile(r"(?<!\d)\d+\.\d+\.\d+\.\d+:5000\b")
HEADING = "## What each case printed\n\n"
_RESULTS = (
    "proved|unchanged|would change|rolled back|not begun|unreachable|stopped|failed before .*"
)
# A row of the table at a play's end: host, deployment before and after, result, figures.
_ROW = re.compile(rf"(\S+)  \s*\S+\s+\S+\s+({_RESULTS})(?:  .*)?")


def keep(command: str, rc: int | str, seconds: float, out: str) -> None:
    """Append one play; `rc` is its exit code, or `killed`."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    reasons = re.findall(r"^ {4}msg: (?:\|-\n)?(.*(?:\n {8}.*)*)", out, re.MULTILINE)
    entry = {
        "case": os.environ["PYTEST_CURRENT_TEST"].rpartition("::")[2].partition(" ")[0],
        "command": command,
        "rc": rc,
        "seconds": round(seconds, 1),
        "reason": [line.strip() for line in reasons[-1].splitlines()] if reasons else [],
        "end": out.rpartition("PLAY RECAP")[2].partition("\n\n\n")[2].strip().splitlines(),
    }
    with FILE.open("a") as stream:
        stream.write(_REGISTRY.sub("REGISTRY:5000", json.dumps(entry)) + "\n")


def table(file: Path = FILE) -> str:
    """Every play in Markdown, the cases in their order."""
    plays = [json.loads(line) for line in file.read_text().splitlines()]
    order = list(dict.fromkeys(play["case"] for play in plays))
    plays.sort(key=lambda play: order.index(play["case"]))
    return "\n".join([_HEAD, *map(_line, plays)])


def keep_run(folder: Path, file: Path = FILE) -> None:
    """A run's plays as FOLDER/plays.jsonl, and their table under its heading in README.md."""
    readme = folder / "README.md"
    before, heading, _ = readme.read_text().partition(HEADING)
    if not heading:
        raise SystemExit(
            f"{readme}: got no line {HEADING.strip()!r}, wanted one: add it at the end"
        )
    lines = file.read_bytes()
    (folder / "plays.jsonl").write_bytes(lines)
    readme.write_text(f"{before}{heading}{table(file)}\n")


def _line(play: dict[str, Any]) -> str:
    case = play["case"].removeprefix("test_").replace("_", " ")
    said = [line[:_LONGEST] for line in [*play["reason"][:4], *map(_shown, play["end"])] if line]
    cells = [case, f"`{play['command'].strip()}`", str(play["rc"]), f"{play['seconds']:.0f}"]
    return f"| {' | '.join([*cells, '<br>'.join(said).replace('|', '/')])} |"


def _shown(line: str) -> str:
    """A line of a play's end without what the table has no room for."""
    if row := _ROW.fullmatch(line):
        return f"{row[1]}: {row[2]}"
    return "" if line.startswith(("host ", "---")) else line


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.fleet.record")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--plays", type=Path, default=FILE, metavar="FILE")
    given = parser.parse_args()
    if not given.plays.exists():
        parser.error(f"{given.plays}: not there; `make test-rollout` writes it")
    if given.keep:
        keep_run(given.keep, given.plays)
    else:
        print(table(given.plays))


if __name__ == "__main__":
    main()
