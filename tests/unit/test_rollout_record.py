"""What the rollout tests keep of a run, and the documents made of it."""

import json
import re
from pathlib import Path

import pytest

from tests.e2e.fleet import record

KEPT = Path(__file__).parents[2] / "docs" / "measurements" / "rollout"
END = """PLAY RECAP *********
host1  : ok=9 changed=4 unreachable=0 failed=1


host   before  after  result       acceptance  tok/s
-----  ------  -----  -----------  ----------  -----
host1  old     old    rolled back  -           -
host1: log of the failed engine: /opt/dflash-kit/logs/a.log
0 of 2 hosts run what was asked for, proved
"""
COMMAND = "deploy.yml -e image_registry=10.230.14.4:5000/dflash-kit/wrong_text"


@pytest.fixture
def plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a run of two cases that took turns."""
    monkeypatch.setattr(record, "FILE", tmp_path / "run" / "plays.jsonl")
    for case, rc in (("test_bad[wrong]", 2), ("test_killed", "killed"), ("test_bad[wrong]", 0)):
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"tests/e2e/x.py::{case} (call)")
        record.keep(COMMAND, rc, 12.34, END if rc == 2 else "")
    return record.FILE


def test_the_table_has_each_play_by_case_and_no_address(plays: Path) -> None:
    command = "`deploy.yml -e image_registry=REGISTRY:5000/dflash-kit/wrong_text`"
    said = "host1: rolled back<br>host1: log of the failed engine: /opt/dflash-kit/logs/a.log"
    assert record.table(plays).splitlines()[2:] == [
        f"| bad[wrong] | {command} | 2 | 12 | {said}<br>"
        "0 of 2 hosts run what was asked for, proved |",
        f"| bad[wrong] | {command} | 0 | 12 |  |",
        f"| killed | {command} | killed | 12 |  |",
    ]


def test_a_run_is_kept_under_the_heading_of_a_document(plays: Path, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Figures\n\n{record.HEADING}of an older run\n")
    record.keep_run(tmp_path, plays)
    assert readme.read_text() == f"# Figures\n\n{record.HEADING}{record.table(plays)}\n"
    assert Path(tmp_path, "plays.jsonl").read_bytes() == plays.read_bytes()
    readme.write_text("# Figures\n")
    with pytest.raises(SystemExit, match=re.escape("wanted one: add it at the end")):
        record.keep_run(tmp_path, plays)


def test_the_kept_table_is_that_of_the_kept_plays() -> None:
    table = record.table(KEPT / "plays.jsonl")
    assert len(table.splitlines()) > 2
    assert Path(KEPT, "README.md").read_text().endswith(f"{record.HEADING}{table}\n")
    for line in Path(KEPT, "plays.jsonl").read_text().splitlines():
        assert json.loads(line)["case"].startswith("test_")
