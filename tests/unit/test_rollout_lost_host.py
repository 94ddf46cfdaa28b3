"""One host is lost or fails: what becomes of the others, in the real tasks without an engine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dflash_kit import paths
from dflash_kit.rollout import lock

SWITCH = """
- hosts: host2
  gather_facts: false
  tasks:
    - dflash_kit_lock: {path: "{{ dflash_kit_root }}/lock"}
- hosts: all
  gather_facts: false
  any_errors_fatal: true
  serial: 1
  tasks:
    - ansible.builtin.import_role: {name: dflash_kit, tasks_from: switch}
"""
PREPARE = """
- hosts: all
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - ansible.builtin.import_role: {name: dflash_kit, tasks_from: prepare}
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """host1, where nothing listens, and host2, this machine; both run an engine."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    gone = {"ansible_host": "127.0.0.1", "ansible_port": 9}
    common = {
        "dflash_kit_root": str(tmp_path),
        "dflash_kit_project": "none",
        "dflash_kit_allow_withdrawn": False,
        "dflash_kit_wanted": {"id": "new"},
        "dflash_kit_before": {"in_service": True, "running": {"id": "old"}},
    }
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps({"all": {"hosts": {"host1": gone, "host2": here}, "vars": common}}))
    return file


def play(content: str, inventory: Path) -> str:
    """What a playbook prints that has to fail."""
    playbook = inventory.with_name("play.yml")
    playbook.write_text(content)
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, playbook],
        env=os.environ | {"ANSIBLE_NOCOLOR": "1"},
        cwd=paths.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0, done.stdout
    return done.stdout


def test_the_next_host_is_not_begun_and_holds_no_lock(inventory: Path, tmp_path: Path) -> None:
    said = play(SWITCH, inventory)
    assert "host2: not switched: host1 was lost before it; run this again" in said
    rows = [line.split() for line in said.splitlines() if line.startswith("host")]
    assert ["host1", "-", "-", "unreachable", "-", "-"] in rows, said
    assert ["host2", "old", "-", "not", "begun", "-", "-"] in rows, said
    assert not (tmp_path / "lock").exists()


def test_a_host_that_is_ended_for_another_says_so(inventory: Path, tmp_path: Path) -> None:
    """Its own reason is not there, and must not hide the other's."""
    content = json.loads(inventory.read_text())
    hosts = content["all"]["hosts"]
    hosts["host1"] = hosts["host2"] | {"dflash_kit_root": str(tmp_path / "one")}
    content["all"]["vars"]["dflash_kit_break_lock"] = ""
    inventory.write_text(json.dumps(content))
    (tmp_path / "one").mkdir()
    holder = lock.this_run(os.getpid()).model_copy(update={"machine": "elsewhere"})
    (tmp_path / "one" / "lock").write_text(holder.as_line())
    said = play(PREPARE, inventory)
    assert "host1: lock: " in said
    assert "host2: ended as another host failed" in said
    assert "undefined" not in said
    assert not (tmp_path / "lock").exists()
