"""A host that is lost in its switch: those after it are not begun, and left open."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dflash_kit import paths

PLAYBOOK = """
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


def test_the_next_host_is_not_begun_and_holds_no_lock(inventory: Path, tmp_path: Path) -> None:
    playbook = tmp_path / "switch.yml"
    playbook.write_text(PLAYBOOK)
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, playbook],
        env=os.environ | {"ANSIBLE_NOCOLOR": "1"},
        cwd=paths.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "host2: not switched: host1 was lost before it; run this again" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("host")]
    assert ["host1", "-", "-", "unreachable", "-", "-"] in rows, done.stdout
    assert ["host2", "old", "-", "not", "begun", "-", "-"] in rows, done.stdout
    assert not (tmp_path / "lock").exists()
