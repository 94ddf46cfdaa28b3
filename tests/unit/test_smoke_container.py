"""What is seen of the engine's container: through a docker of our own, and through /proc."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dflash_kit import paths
from dflash_kit.errors import InputError, Undetermined
from dflash_kit.smoke import container, watch
from dflash_kit.smoke.container import Docker, Facts, Hidden, Process, Seen

ID = "4f1d" * 16
INSPECTED = {
    "Id": ID,
    "Image": "sha256:abc",
    "RestartCount": 2,
    "State": {"Running": True, "StartedAt": "2026-01-01T10:00:00.5Z", "Pid": 4711},
}
# As Debian's ps prints it for `docker top ID -eo pid,stat,rss,args`.
TOP = """PID    STAT  RSS     COMMAND
4711   Ssl   41216   /opt/venv/bin/python3 /opt/venv/bin/dflash-kit serve
4750   Sl    409600  /opt/venv/bin/python3 -m sglang.launch_server --config /tmp/engine.yaml
4801   Sl    921600  sglang::scheduler_TP0
4802   Sl    921600  sglang::scheduler_TP1
4803   Z     0       [python3] <defunct>
"""
NVIDIA_SMI = "4801, 81000\n4802, 80000\n9999, 5\n4802, [N/A]\n"


def program(folder: Path, name: str, body: str) -> None:
    file = folder / name
    unexpected = '*) echo "unexpected: $*" >&2; exit 1;; esac'
    file.write_text(f'#!/bin/sh\ncase "$*" in\n{body}\n{unexpected}\n')
    file.chmod(0o755)


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """A docker that knows one engine, which publishes port 30000, and no nvidia-smi."""
    (tmp_path / "inspect").write_text(json.dumps([INSPECTED]))
    (tmp_path / "top").write_text(TOP)
    program(
        tmp_path,
        "docker",
        f'"inspect --type container {ID}") cat {tmp_path}/inspect;;\n'
        f'"top {ID} -eo pid,stat,rss,args") cat {tmp_path}/top;;\n'
        f'"logs --since 2026-01-01T10:00:00.5Z {ID}") echo out; echo err >&2;;\n'
        f'"ps --no-trunc --quiet --filter publish=30000") echo {ID};;\n'
        '"ps --no-trunc --quiet --filter publish=30001") ;;\n'
        '"inspect --type container gone") echo "No such container: gone" >&2; exit 1;;',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.usefixtures("docker")
def test_docker_tells_of_a_container():
    seen = Docker(ID).look()
    assert (seen.id, seen.image, seen.restarts) == (ID, "sha256:abc", 2)
    assert seen.processes[4802] == Process(4802, "sglang::scheduler_TP1", "Sl", 921600)
    assert [pid for pid, process in seen.processes.items() if process.is_zombie] == [4803]
    assert seen.resident_mib == (41216 + 409600 + 2 * 921600) // 1024
    assert seen.gpu_mib is None
    assert Docker(ID).log() == ["out", "err"]


def test_gpu_memory_is_that_of_the_containers_processes(docker):
    program(docker, "nvidia-smi", f'*) printf "{NVIDIA_SMI}";;'.replace("\n", "\\n"))
    seen = Docker(ID).look()
    assert seen.gpu_mib == 161000
    assert (seen.processes[4801].gpu_mib, seen.processes[4711].gpu_mib) == (81000, None)


def test_container_that_does_not_run_has_no_processes(docker):
    stopped = INSPECTED | {"State": INSPECTED["State"] | {"Running": False}}
    (docker / "inspect").write_text(json.dumps([stopped]))
    (docker / "top").unlink()  # docker top fails for one
    seen = Docker(ID).look()
    assert (seen.running, seen.processes) == (False, {})


@pytest.mark.usefixtures("docker")
def test_container_that_is_gone_is_not_seen():
    with pytest.raises(Undetermined, match="docker inspect: No such container: gone; give --cont"):
        Docker("gone").look()


def test_docker_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Undetermined, match="docker: No such file or directory; give --container"):
        Docker(ID).look()
    hidden = container.of_port("http://127.0.0.1:30000")
    with pytest.raises(Undetermined, match="give --container NAME"):
        hidden.look()


@pytest.mark.usefixtures("docker")
def test_the_container_that_publishes_the_port_is_watched():
    assert container.of_port("http://127.0.0.1:30000") == Docker(ID)
    nobody = container.of_port("http://127.0.0.1:30001")
    with pytest.raises(Undetermined, match="0 publish port 30001 here"):
        nobody.log()


@pytest.mark.usefixtures("docker")
def test_what_the_options_choose(tmp_path, monkeypatch):
    here, elsewhere = "http://127.0.0.1:30000", "http://10.9.8.7:30000"
    assert container.choose(here, "", None, False) == Docker(ID)
    assert container.choose(here, "mine", None, False) == Docker("mine")
    assert container.choose(elsewhere, "", tmp_path, False) == Facts(tmp_path)
    assert container.choose(elsewhere, "", None, True) is None
    # Another machine's engine must not be judged by a container of this one.
    assert isinstance(container.choose(elsewhere, "", None, False), Hidden)
    with pytest.raises(InputError, match="got several of --container, .* wanted one"):
        container.choose(here, "mine", None, True)
    monkeypatch.setattr(paths, "PATCHES_FILE", tmp_path)
    assert isinstance(container.choose(here, "", None, False), Hidden)


def status(proc: Path, pid: int, parent: int, title: str, state: str = "S (sleeping)") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    memory = "" if state.startswith("Z") else "VmRSS:\t  2048 kB\n"
    text = f"Name:\tpython3\nState:\t{state}\nPid:\t{pid}\nPPid:\t{parent}\n{memory}"
    (folder / "status").write_text(text)
    (folder / "cmdline").write_bytes(title.replace(" ", "\0").encode())


@pytest.fixture
def facts(tmp_path):
    """A folder as role smoke leaves it, beside a /proc of the host."""
    (tmp_path / "inspect.json").write_text(json.dumps([INSPECTED]))
    (tmp_path / "log").write_bytes(b"first\nnot text: \xff\n")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "self").mkdir()
    (proc / "99").mkdir()  # it ended while we looked
    status(proc, 1, 0, "systemd")
    status(proc, 4711, 1, "dflash-kit serve")
    status(proc, 4801, 4711, "sglang::scheduler")
    status(proc, 4802, 4801, "", "Z (zombie)")
    status(proc, 5000, 1, "sglang::scheduler of another container")
    return Facts(tmp_path, proc)


def test_facts_and_the_hosts_processes(facts):
    seen = facts.look()
    assert sorted(seen.processes) == [4711, 4801, 4802]
    assert seen.processes[4711] == Process(4711, "dflash-kit serve", "S", 2048)
    assert seen.processes[4802].is_zombie
    assert seen.resident_mib == 4
    assert facts.log() == ["first", "not text: \ufffd"]


def test_facts_that_are_not_there(facts):
    (facts.folder / "inspect.json").unlink()
    with pytest.raises(Undetermined, match="inspect.json: cannot be read.*role smoke writes it"):
        facts.look()


@pytest.mark.parametrize("text", ["", "[]", "no JSON"])
def test_facts_that_are_not_dockers(facts, text):
    (facts.folder / "inspect.json").write_text(text)
    with pytest.raises(Undetermined, match="is not what docker inspect says"):
        facts.look()


def test_real_processes_are_read_from_the_real_proc():
    program = "print('here', flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        child.stdout.readline()  # while it is being started it has no title of its own
        found = container.below(os.getpid(), Path("/proc"))
    finally:
        child.kill()
        child.communicate()
    assert found[child.pid].title == f"{sys.executable} -c {program}"
    assert found[os.getpid()].resident_kib > 1024
    assert os.getppid() not in found


def looked(**other):
    processes = {
        1: Process(1, "sglang.launch_server", "S", 1024),
        2: Process(2, "python3 probe.py", "S", 9),
    }
    fields = {"id": ID, "image": "i", "running": True, "started": "a", "restarts": 0}
    return Seen(**fields | {"processes": processes} | other)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (looked(), []),
        # A health check comes and goes.
        (looked(processes={1: Process(1, "sglang.launch_server", "S", 1)}), []),
        (looked(processes={}), ["sglang.launch_server (1) has ended"]),
        (looked(started="b", restarts=1), ["restarted: 1 times, before 0"]),
        (looked(id="another"), ["another container: another, before 4f1d4f1d4f1d"]),
    ],
)
def test_differences_between_two_looks(now, said, monkeypatch):
    monkeypatch.setattr(watch, "ZOMBIE_SECONDS", 0.0)
    assert watch.differences(looked(), lambda: now, "sglang") == (said, now)


def test_a_zombie_is_looked_at_twice(monkeypatch):
    """One that has just ended is a zombie until its parent looks."""
    monkeypatch.setattr(watch, "ZOMBIE_SECONDS", 0.0)
    zombie = Process(3, "probe", "Z", 0)
    with_it = looked(processes={**looked().processes, 3: zombie})
    looks = iter([with_it, looked()])
    assert watch.differences(looked(), lambda: next(looks), "sglang") == ([], looked())
    assert watch.differences(looked(), lambda: with_it, "sglang")[0] == ["probe (3) is a zombie"]


def test_growth_leaves_out_what_is_not_seen():
    grown = looked(processes={1: Process(1, "sglang", "S", 103 * 1024, 20)})
    assert watch.growth_mib(looked(), grown) == {"resident": 102}
    assert watch.growth_mib(grown, grown) == {"resident": 0, "GPU": 0}
