import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rollout_host import OPTIONS, RELEASE

from dflash_kit import paths
from dflash_kit.rollout import inputs

GOOD = {"dflash_kit_profile": "cpu-tiny"}


def told(**hosts: dict[str, Any]) -> list[str]:
    """The problems of hosts, each host's variables being in a file of its name."""
    found = inputs.problems(hosts, OPTIONS, lambda host, name: f"{host}.yml")
    return [str(problem) for problem in found]


def test_every_role_gives_its_options() -> None:
    assert {option.role for option in OPTIONS.values()} >= {
        "dflash_kit",
        "engine",
        "host_checks",
        "image",
        "receipt",
        "smoke",
    }
    port = OPTIONS["dflash_kit_port"]
    assert (port.role, port.type, port.default) == ("dflash_kit", "int", 30000)
    assert inputs.settings({"dflash_kit_port": 1}, OPTIONS)["dflash_kit_port"] == 1
    assert inputs.settings({}, OPTIONS)["dflash_kit_port"] == 30000


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"dflash_kit_release": RELEASE, "dflash_kit_point": "throughput"},
        {"dflash_kit_port": 30001, "image_keep": 0},
        {"dflash_kit_port": "30001", "dflash_kit_serial": "4"},  # as -e gives them
        {"dflash_kit_bind": "::1", "dflash_kit_memory": "1536m", "dflash_kit_models": "/data"},
        {"host_checks_demoted": ["gpu-count"], "weights_environment": {"A": "b"}},
        {"ansible_host": "gpu-01.example.net", "group_names": [], "rack": 3, "http_port": 80},
        {"_image_registry": "of the playbook's own"},
    ],
)
def test_right_variables_and_those_of_others_are_no_problem(variables: dict[str, Any]) -> None:
    assert told(a=GOOD | variables) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("dflash_kit_relase", "dflash_kit_release"),
        ("image_regsitry", "image_registry"),
        ("imag_registry", "image_registry"),  # even the role's name
        ("dflash_kit_profiles", "dflash_kit_profile"),
    ],
)
def test_a_misspelt_name_is_told_with_the_right_one(name: str, meant: str) -> None:
    (line,) = told(a=GOOD | {name: "x"})
    assert line.startswith(f"a.yml: {name}: got a variable of no role, wanted one of dflash_kit, ")
    assert line.endswith(f"did you mean {meant}?")


def test_a_name_that_begins_like_a_role_and_resembles_nothing() -> None:
    (line,) = told(a=GOOD | {"engine_turbo_boost_level": 11})
    assert "engine_turbo_boost_level: got a variable of no role" in line
    assert "did you mean" not in line


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("dflash_kit_port", True, "got True, wanted a whole number"),
        ("dflash_kit_port", "http", "got 'http', wanted a whole number"),
        ("dflash_kit_port", -1, "got -1, wanted a whole number"),
        ("dflash_kit_port", 3.5, "got 3.5, wanted a whole number"),
        ("dflash_kit_memory", 4, "got 4, wanted a text: put it in quotes"),
        ("dflash_kit_bind", None, "got None, wanted a text: put it in quotes"),
        ("dflash_kit_models", ["/srv"], "got ['/srv'], wanted a text: put it in quotes"),
        ("host_checks_demoted", "gpu-count", "got 'gpu-count', wanted a list"),
        ("weights_environment", "A=b", "got 'A=b', wanted a mapping"),
        ("dflash_kit_port", 0, "got 0, wanted a port: 1 to 65535"),
        ("dflash_kit_port", "65536", "got '65536', wanted a port: 1 to 65535"),
        ("dflash_kit_serial", 0, "got 0, wanted a number from 1"),
        ("dflash_kit_bind", "localhost", "got 'localhost', wanted an IP address without brackets"),
        ("dflash_kit_bind", "[::1]", "got '[::1]', wanted an IP address without brackets"),
        ("dflash_kit_memory", "lots", "got 'lots', wanted a size such as 4g"),
        ("dflash_kit_models", "models", "got 'models', wanted an absolute path"),
    ],
)
def test_a_value_of_the_wrong_type_or_form(name: str, value: Any, wanted: str) -> None:
    assert told(a=GOOD | {name: value}) == [f"a.yml: {name}: {wanted}"]


def test_a_secret_of_the_wrong_type_is_not_shown() -> None:
    (line,) = told(a=GOOD | {"image_registry_password": 12345})
    assert (
        line
        == "a.yml: image_registry_password: got something else, wanted a text: put it in quotes"
    )


@pytest.mark.parametrize("value", ["true", "yes", "false", "", 1, None])
def test_a_boolean_in_quotes_is_refused(value: Any) -> None:
    options = OPTIONS | {
        "smoke_quick": inputs.Option("smoke_quick", "smoke", "bool", False, False, ()),
    }

    def found(value: Any) -> list[str]:
        hosts = {"a": GOOD | {"smoke_quick": value}}
        return [str(problem) for problem in inputs.problems(hosts, options, lambda *_: "f:1")]

    (line,) = found(value)
    assert line.startswith(f"f:1: smoke_quick: got {value!r}, wanted true or false without quotes")
    assert """-e '{"smoke_quick": true}'""" in line
    assert found(True) == found(False) == []


def test_a_value_beside_the_choices_is_told_with_them() -> None:
    kind = inputs.Option("smoke_kind", "smoke", "str", "a", False, ("a", "b"))
    hosts = {"h": GOOD | {"smoke_kind": "c"}}
    (problem,) = inputs.problems(hosts, OPTIONS | {kind.name: kind}, lambda *_: "f:1")
    assert str(problem) == "f:1: smoke_kind: got 'c', wanted one of: a, b"


def test_a_host_in_no_hardware_group() -> None:
    (line,) = told(gpu={})
    assert line.startswith(
        "inventory: dflash_kit_profile: got none: the host gpu is in no hardware group, wanted the "
        "host in a group whose group_vars set it; profiles: "
    )
    assert "cpu-tiny" in line


def test_unknown_names_are_told_with_those_that_there_are() -> None:
    release, profile = told(
        a={"dflash_kit_release": "9.9-dflash.1", "dflash_kit_profile": "tpu-x4"}
    )
    start = "a.yml: dflash_kit_release: got 9.9-dflash.1, wanted one of: "
    assert release.startswith(start) and RELEASE in release
    assert profile.startswith("a.yml: dflash_kit_profile: got tpu-x4, wanted ")
    assert "cpu-tiny" in profile
    assert told(a=GOOD | {"dflash_kit_point": "turbo"}) == [
        "a.yml: dflash_kit_point: got turbo, wanted one of cpu-tiny's: latency, throughput"
    ]


def test_all_mistakes_of_all_hosts_come_at_once() -> None:
    lines = told(
        a={"dflash_kit_profile": "tpu-x4", "image_regsitry": "x"},
        b={},
        c={"dflash_kit_port": "http", "dflash_kit_memory": 4, "dflash_kit_release": "9.9"} | GOOD,
        d={"dflash_kit_release": ["9.9"], "dflash_kit_profile": 8},
    )
    assert [line.split(": ")[:2] for line in lines] == [
        ["a.yml", "image_regsitry"],
        ["a.yml", "dflash_kit_profile"],
        ["inventory", "dflash_kit_profile"],
        ["c.yml", "dflash_kit_port"],
        ["c.yml", "dflash_kit_memory"],
        ["c.yml", "dflash_kit_release"],
        ["d.yml", "dflash_kit_release"],
        ["d.yml", "dflash_kit_profile"],
    ]


def test_one_mistake_of_a_group_is_told_once() -> None:
    hosts = {name: GOOD | {"dflash_kit_port": "http"} for name in ("a", "b")}
    found = inputs.problems(hosts, OPTIONS, lambda host, name: "group_vars/all.yml:3")
    assert len(found) == 1


WRONG = {
    "hosts.yml": """\
rtx_pro_6000: {hosts: {gpu-01: , gpu-02: }}
b300: {hosts: {gpu-11: }}
ungrouped: {hosts: {gpu-99: }}
""",
    "group_vars/rtx_pro_6000.yml": "# One.\ndflash_kit_profile: rtx-pro-6000-x9\n",
    "group_vars/b300.yml": """\
dflash_kit_profile: b300-x8
dflash_kit_point: fast
dflash_kit_relase: 0.5.11-dflash.1
""",
    "host_vars/gpu-11.yml": "\n\ndflash_kit_release: 9.9.9-dflash.1\n",
    "group_vars/all.yml": "image_registry: registry.example.net/engine\n",
}


def deploy(inventory: Path, *arguments: str) -> str:
    """What deploy.yml prints, which must fail; a host that it would touch does not resolve."""
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", inventory, "ansible/deploy.yml"]
        + [*arguments],
        cwd=paths.ROOT,
        env={**os.environ, "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stdout and "UNREACHABLE" not in done.stdout
    return done.stdout.partition("fatal: ")[2]


def test_a_playbook_names_every_mistake_with_file_and_line_and_touches_no_host(
    tmp_path: Path,
) -> None:
    for name, content in WRONG.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    printed = deploy(tmp_path, "-e", "dflash_kit_serial=one")
    wanted = {
        "group_vars/rtx_pro_6000.yml:2": "dflash_kit_profile: got rtx-pro-6000-x9, wanted ",
        "group_vars/b300.yml:2": "dflash_kit_point: got fast, wanted one of b300-x8's: ",
        "group_vars/b300.yml:3": "dflash_kit_relase: got a variable of no role, wanted one of ",
        "host_vars/gpu-11.yml:3": "dflash_kit_release: got 9.9.9-dflash.1, wanted one of: ",
    }
    for place, text in wanted.items():
        assert printed.count(f"{os.path.relpath(tmp_path / place, paths.ROOT)}: {text}") == 1
    assert "inventory: dflash_kit_profile: got none: the host gpu-99 is in no hardware" in printed
    assert "<CLI option '-e'>: dflash_kit_serial: got 'one', wanted a whole number" in printed
    assert "6 wrong input(s); no host was touched" in printed
