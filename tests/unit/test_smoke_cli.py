"""`dflash-kit smoke` as a person runs it: one process, one table or receipt, one exit code."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fake_engine import KEYS, FakeEngine
from fake_engine_http import serving
from fake_faults import Fault
from fake_state import LOG

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.smoke.address import default_url
from dflash_kit.smoke.checks import Tier, required
from dflash_kit.smoke.credentials import expect_key_options, find_keys

COMMAND = Path(sys.executable).parent / "dflash-kit"


def fake(fault=Fault.NONE):
    return serving(FakeEngine(fault))


@pytest.fixture
def keys(tmp_path):
    """Options that name two key files."""
    for role in ("user", "admin"):
        file = tmp_path / role
        file.write_text(getattr(KEYS, role) + "\n")
        file.chmod(0o600)
    return ["--key-file", tmp_path / "user", "--admin-key-file", tmp_path / "admin", "--outside"]


def smoke(*arguments, **environment):
    return subprocess.run(
        [COMMAND, "smoke", *map(str, arguments)],
        env={**os.environ, "DFLASH_KIT_KEYS": "/nonexistent", "COLUMNS": "120", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def only_line(done):
    """The one line of a refusal."""
    assert done.stdout == ""
    assert done.stderr.startswith("dflash-kit: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_table_and_receipt_of_a_good_engine(keys, tmp_path):
    file = tmp_path / "made" / "receipt.json"
    with fake() as engine:
        done = smoke("--url", engine.url, "--receipt", file, *keys)
    assert done.returncode == 0, done.stdout + done.stderr
    for code in required(Tier.QUICK):
        assert re.search(rf"\b{code} +(PASS|SKIP)", done.stdout), code
    assert re.search(r"PASS \(\d+ passed, 5 skipped in", done.stdout)
    assert done.stderr == f"receipt: {file}\n"
    assert json.loads(file.read_text())["verdict"] == "PASS"


def test_failed_check_is_exit_1_with_the_next_step(keys, tmp_path):
    with fake(Fault.PERFECT) as engine:
        done = smoke("--url", engine.url, "--receipt", tmp_path / "receipt.json", *keys)
    assert done.returncode == 1
    assert re.search(r"accept-length +FAIL +8.00: no draft was ever rejected", done.stdout)
    assert "FAIL accept-length: acceptance is faked" in done.stdout


def test_check_without_answer_is_exit_3(keys, tmp_path):
    with fake() as engine:
        options = ["--url", engine.url, "--receipt", tmp_path / "receipt.json", *keys[:-1]]
        done = smoke(*options, PATH=str(tmp_path))  # no docker
    assert done.returncode == 3
    assert re.search(r"processes +INCONCLUSIVE", done.stdout)
    assert "give --container NAME" in done.stdout


def test_json_is_the_receipt_alone(tmp_path, keys):
    with fake() as engine:
        port = engine.url.rpartition(":")[2]
        done = smoke(
            "--json",
            "--outside",
            "--receipt",
            tmp_path / "receipt.json",
            DFLASH_KIT_PORT=port,
            DFLASH_KIT_KEYS=str(tmp_path),
            DFLASH_KIT_HOST="gpu7",
            DFLASH_KIT_DEPLOYMENT="d1",
            DFLASH_KIT_IMAGE_DIGEST="sha256:abc",
        )
    receipt = json.loads(done.stdout)
    bound = (receipt["host"]["name"], receipt["deployment"], receipt["image"])
    assert bound == ("gpu7", "d1", "sha256:abc")
    assert receipt["required"] == required(Tier.QUICK)
    assert done.returncode == 0
    assert [check["code"] for check in receipt["checks"]] == required(Tier.QUICK)
    assert receipt["url"] == engine.url
    assert done.stdout == (tmp_path / "receipt.json").read_text()


@pytest.mark.parametrize("fault", [Fault.KEY_IN_ERROR, Fault.KEY_LEAKED])
def test_no_key_is_ever_shown(keys, tmp_path, fault):
    file = tmp_path / "receipt.json"
    with fake(fault) as engine:
        done = smoke("--url", engine.url, "--receipt", file, *keys)
    assert done.returncode == 1
    # A wrapped line could hide a key from a plain search.
    shown = re.sub(r"\s", "", done.stdout + done.stderr)
    for text in (shown, file.read_text()):
        assert KEYS.user not in text
        assert KEYS.admin not in text
    if fault is Fault.KEY_IN_ERROR:
        assert "Bearer <key>" in file.read_text()


INSPECTED = """[{"Id": "c1", "Image": "sha256:abc", "RestartCount": 0,
"State": {"Running": true, "StartedAt": "2026-01-01T10:00:00Z", "Pid": 7}}]"""
TOP = """PID STAT RSS COMMAND
7 Ssl 41216 dflash-kit serve
8 Sl 921600 sglang::scheduler
"""


def test_keys_and_container_of_the_compose_service(tmp_path):
    for name, text in {"inspect": INSPECTED, "top": TOP, "log": "\n".join(LOG)}.items():
        (tmp_path / name).write_text(text)
    docker = tmp_path / "docker"
    docker.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f'"compose exec -T engine dflash-kit keys show user") echo {KEYS.user};;\n'
        f'"compose exec -T engine dflash-kit keys show admin") echo {KEYS.admin};;\n'
        '"compose ps --quiet engine") echo c1;;\n'
        '"inspect --format {{.Image}} c1") echo sha256:abc;;\n'
        '"ps --no-trunc --quiet --filter publish="*) echo c1;;\n'
        f'"inspect --type container c1") cat {tmp_path}/inspect;;\n'
        f'"top c1 -eo pid,stat,rss,args") cat {tmp_path}/top;;\n'
        f'"logs --since 2026-01-01T10:00:00Z c1") cat {tmp_path}/log;;\n'
        "*) exit 1;; esac\n"
    )
    docker.chmod(0o755)
    with fake() as engine:
        done = smoke(
            "--url",
            engine.url,
            "--receipt",
            tmp_path / "receipt.json",
            PATH=f"{tmp_path}:{os.environ['PATH']}",
        )
    assert done.returncode == 0, done.stdout + done.stderr
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert receipt["image"] == "sha256:abc"
    found = {check["code"]: check["measured"] for check in receipt["checks"]}
    assert found["processes"] == "2 processes, the same"
    assert found["ranks"] == "1 of 1"


def test_no_keys_anywhere(tmp_path):
    with fake() as engine:
        done = smoke("--url", engine.url, PATH=str(tmp_path))
    assert done.returncode == 3
    assert "give --key-file and --admin-key-file" in only_line(done)


def test_nobody_there_is_one_line(keys):
    with socket.socket() as taken:
        # Bound and not listening: no other program can answer on this port.
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = smoke("--url", url, *keys)
    assert done.returncode == 3
    assert f"no engine answers at {url}" in only_line(done)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--release", "9.9.9-dflash.1"], "9.9.9-dflash.1"),
        (["--profile", "no-such"], "unknown profile 'no-such'"),
        (["--profile", "cpu-tiny", "--point", "fast"], "wanted one of: latency, throughput"),
        (["--url", "127.0.0.1:30000"], "wanted http://HOST:PORT"),
        (["--url", "http://"], "wanted http://HOST:PORT"),
        (["--url", "http://[::1"], "wanted http://HOST:PORT"),
        (["--point", "fast"], "wanted one of: latency, throughput"),
        (["--hours", "2"], "--hours: goes with --tier soak"),
        (["--url", "http://elsewhere.invalid"], "give --key-file and --admin-key-file"),
    ],
)
def test_wrong_input_is_one_line(arguments, said):
    done = smoke(*arguments)
    assert done.returncode == 2
    assert said in only_line(done)


def test_one_key_file_is_refused(tmp_path, keys):
    with fake() as engine:
        done = smoke("--url", engine.url, *keys[:2])
    assert done.returncode == 2
    assert "wanted both or none" in only_line(done)


HERE = ["127.0.0.1:30000", "127.3.2.1", "localhost:1", "LOCALHOST", "[::1]:30000"]
ELSEWHERE = [
    "10.0.0.7",
    "[2001:db8::1]",
    "engine:30000",
    "127.0.0.1.invalid",
    "localhost@a.invalid",
]


@pytest.mark.parametrize("host", HERE)
def test_keys_of_this_node_are_for_its_engine(host):
    expect_key_options(f"http://{host}", None, None)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_keys_of_this_node_stay_here(host, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="is not this host.*give --key-file"):
        expect_key_options(f"http://{host}", None, None)
    expect_key_options(f"http://{host}", tmp_path, tmp_path)
    # An image's smoke test asks the engine of another container.
    monkeypatch.setattr(paths, "PATCHES_FILE", tmp_path)
    expect_key_options(f"http://{host}", None, None)


def test_other_commands_load_no_pytest():
    code = "import sys, dflash_kit.cli; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(("fault", "code"), [(Fault.NONE, 2), (Fault.PERFECT, 1)])
def test_receipt_that_cannot_be_written(keys, fault, code):
    with fake(fault) as engine:
        done = smoke("--url", engine.url, "--receipt", "/proc/receipt.json", *keys)
    assert done.returncode == code
    assert "receipt /proc/receipt.json: cannot be written" in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("DFLASH_KIT_PORT", "x", "DFLASH_KIT_PORT: got x, wanted a port: 1 to 65535"),
        ("DFLASH_KIT_PORT", "65536", "DFLASH_KIT_PORT: got 65536"),
        ("DFLASH_KIT_PROFILE", "no-such", "unknown profile 'no-such'"),
        ("DFLASH_KIT_POINT", "fast", "wanted one of: latency, throughput"),
    ],
)
def test_environment_that_is_wrong_is_one_line(variable, value, said):
    done = smoke(**{variable: value})
    assert done.returncode == 2
    assert said in only_line(done)


@pytest.mark.parametrize(
    ("bound", "url"),
    [
        ("", "http://127.0.0.1:30000"),
        ("0.0.0.0", "http://127.0.0.1:30000"),
        ("::", "http://127.0.0.1:30000"),
        ("10.0.0.7", "http://10.0.0.7:30000"),
        ("2001:db8::1", "http://[2001:db8::1]:30000"),
        ("[2001:db8::1]", "http://[2001:db8::1]:30000"),
    ],
)
def test_this_nodes_engine_is_asked_where_it_is_bound(bound, url, monkeypatch):
    monkeypatch.setenv("DFLASH_KIT_BIND", bound)
    monkeypatch.delenv("DFLASH_KIT_PORT", raising=False)
    assert default_url() == url
    expect_key_options(url, None, None)  # so it gets this node's keys


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a-key-of-one-line\nand-of-another", "letters, digits"),
        ("schl\u00fcssel-schl\u00fcssel", "letters, digits"),
        ("e", "got 1 characters, wanted at least 16"),
    ],
)
def test_key_file_that_cannot_be_used(tmp_path, content, said):
    (tmp_path / "key").write_text(content)
    with pytest.raises(InputError, match=said) as caught:
        find_keys(tmp_path / "key", tmp_path / "key")
    assert "\n" not in str(caught.value) and content not in str(caught.value).split()


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        ("OSError(5, 'odd', 'x')", 2, "[Errno 5] odd: 'x'"),
        ("KeyboardInterrupt", 130, "interrupted"),
    ],
)
def test_what_no_command_foresees_is_one_line(raised, code, said):
    program = (
        f"from dflash_kit import cli\n@cli.app.command()\ndef fall(): raise {raised}\ncli.main()"
    )
    done = subprocess.run([sys.executable, "-c", program, "fall"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, f"dflash-kit: {said}\n")
