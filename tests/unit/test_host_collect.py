"""collect.py on this machine: nothing that a host does makes it raise or wait for ever."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from host_documents import RTX, changed, cpu_box, gpu_answer, rtx_box
from typer.testing import CliRunner

from dflash_kit.cli import app
from dflash_kit.errors import InputError
from dflash_kit.host import collect, source
from dflash_kit.host.facts import Host, Unknown


def test_a_command_is_recorded_whatever_it_does(tmp_path: Path) -> None:
    good = collect.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (good["rc"], good["stdout"], good["stderr"]) == (3, "out\n", "err\n")
    missing = collect.run([str(tmp_path / "none")])
    assert missing["rc"] == collect.MISSING_RC and "No such file" in missing["stderr"]
    refused = collect.run([str(tmp_path)])
    assert refused["rc"] == collect.MISSING_RC and "Permission denied" in refused["stderr"]
    binary = collect.run(["printf", r"\377\376"])
    assert binary["stdout"] == "\ufffd\ufffd"


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = collect.run(["sh", "-c", f"sleep 1000 & echo $! > {pid}; wait"], 0.5)
    assert (done["rc"], done["stderr"]) == (collect.TIMEOUT_RC, "no answer in 0.5 s")
    child = Path("/proc", pid.read_text().strip(), "stat")
    for _ in range(100):
        # Ended, or ended and not yet collected by whoever inherited it.
        if not child.exists() or child.read_text().split(")")[-1].split()[0] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"{child.parent} still runs")


def test_only_lines_that_matter_are_kept() -> None:
    log = "Linux version 6\nusb 1-1: new\nNVRM: Xid (PCI:0): 8\n"
    assert collect.shortened("dmesg", log) == "Linux version 6\nNVRM: Xid (PCI:0): 8\n"
    assert collect.shortened("topo-m", log) == log
    table = "  sl\n   0: 0100007F:7530 00000000:0000 0A x\n   1: 0100007F:7530 0100007F:1 01 x\n"
    assert collect.shortened("/proc/net/tcp", table).count("\n") == 1
    assert len(collect.shortened("x", "y" * 3_000_000)) == collect.MAX_CHARACTERS


def test_a_folder_to_come_lies_where_its_parent_does(tmp_path: Path) -> None:
    assert collect.existing(str(tmp_path / "a" / "b")) == str(tmp_path)


@pytest.mark.parametrize("info", ["", "null", "[]", '{"DockerRootDir": null}'])
def test_docker_that_does_not_say_where_its_images_lie(info: str) -> None:
    assert collect.docker_root(info) in ("", "None")


def test_the_script_alone_gives_the_document(tmp_path: Path) -> None:
    """As Ansible runs it: a copy, no kit beside it, tools missing."""
    script = tmp_path / "script.py"
    script.write_text(Path(collect.__file__).read_text())
    done = subprocess.run(
        [sys.executable, "-I", str(script), "--weights", str(tmp_path / "models"), "--port", "1"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/nowhere"},
    )
    document = json.loads(done.stdout)
    assert document["schema"] == collect.SCHEMA
    assert document["settings"] == {"registry": "", "weights": f"{tmp_path}/models", "port": 1}
    assert set(collect.COMMANDS) <= document["commands"].keys()
    assert "registry" not in document["commands"]
    host = Host(document)
    assert host.memory_mib > 0 and host.processes()
    assert host.said("disk-weights").startswith("Filesystem")


def test_what_was_not_collected_is_unknown() -> None:
    host = Host({"commands": {"a": {"rc": 9, "stdout": "No devices\nfound"}, "b": None}})
    for name, reason in (("a", "a: No devices found"), ("b", "b: not collected"), ("c", "c: not")):
        with pytest.raises(Unknown, match=reason):
            host.said(name)
    with pytest.raises(Unknown, match="/x: not readable"):
        host.file("/x")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["preflight", *arguments])
    if isinstance(result.exception, InputError):
        return result.exception.exit_code, str(result.exception)
    return result.exit_code, result.output


def test_the_command_judges_a_document(tmp_path: Path) -> None:
    file = tmp_path / "host.json"
    file.write_text(json.dumps(cpu_box()))
    code, said = run("--profile", "cpu-tiny", "--from", str(file))
    assert code == 0 and "cpu-tiny: PASS (13 passed)" in said
    file.write_text(json.dumps(changed(rtx_box(), commands={"gpus": gpu_answer(RTX, 7)})))
    arguments = ("--profile", "rtx-pro-6000-x8", "--from", str(file))
    code, said = run(*arguments, "--json")
    bad = [check for check in json.loads(said)["checks"] if check["verdict"] != "PASS"]
    assert code == 1 and [check["code"] for check in bad] == ["gpu-count"]
    assert run(*arguments, "--demote", "gpu-count")[0] == 0
    file.write_text(json.dumps(changed(rtx_box(), commands={"lspci": None})))
    assert run(*arguments)[0] == 3


def test_the_command_judges_a_folder(tmp_path: Path) -> None:
    for name, answer in rtx_box()["commands"].items():
        (tmp_path / f"{name}.txt").write_text(answer["stdout"])
    for path, content in rtx_box()["files"].items():
        file = tmp_path / "files" / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content["text"])
    code, said = run("--profile", "rtx-pro-6000-x8", "--from", str(tmp_path), "--json")
    assert code == 0, said


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("{")
    (tmp_path / "old.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    twice = tmp_path / "twice"
    twice.mkdir()
    for name in ("gpus.csv", "gpus.txt"):
        (twice / name).touch()
    for arguments, wanted in [
        ([], "--profile: missing"),
        (["--profile", "x"], "unknown profile 'x'"),
        (["--profile", "cpu-tiny", "--from", str(tmp_path / "gone")], "cannot be read: No such"),
        (["--profile", "cpu-tiny", "--from", str(tmp_path / "none.json")], "is not JSON"),
        (["--profile", "cpu-tiny", "--from", str(tmp_path / "old.json")], "schema: wanted 1"),
        (["--profile", "cpu-tiny", "--from", str(tmp_path / "empty")], "no captured output"),
        (["--profile", "cpu-tiny", "--from", str(twice)], "got gpus.csv and gpus.txt, wanted one"),
        (["--profile", "cpu-tiny", "--from", str(twice), "--port", "1"], "goes with none of"),
    ]:
        code, said = run(*arguments)
        assert code == 2 and wanted in said and "\n" not in said, said


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(json.dumps(rtx_box()))
    assert source.read(tmp_path / "host.json") == rtx_box()
