import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dflash_kit import paths
from dflash_kit.rollout import inputs

ANSIBLE = paths.ROOT / "ansible"
ROLES = sorted(inputs.ROLES.iterdir())
PLAYBOOKS = sorted(file for file in ANSIBLE.glob("*.yml") if file.name != "requirements.yml")
INVENTORIES = sorted((paths.ROOT / "inventory").iterdir())
PLUGINS = sorted(
    file
    for pattern in ("plugins/*/*.py", "roles/*/*_plugins/*.py", "roles/*/library/*.py")
    for file in ANSIBLE.glob(pattern)
)
OPTIONS = inputs.load_options()
# What a kind of plugin must have for Ansible to take it.
ENTRIES = {
    "action": "ActionModule",
    "action_plugins": "ActionModule",
    "callback": "CallbackModule",
    "modules": "main",
    "library": "main",
}
PARTS = ("block", "rescue", "always")
CALLS = ("import_role", "include_role")
each_role = pytest.mark.parametrize("role", ROLES, ids=lambda role: str(role.name))
each_playbook = pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda file: str(file.name))


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def flattened(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every task and every block, also those in blocks."""
    for task in tasks:
        yield task
        for part in PARTS:
            yield from flattened(task.get(part, []))


def tasks_of(role: Path) -> list[tuple[str, dict[str, Any]]]:
    """File and task of every task and block of a role."""
    files = sorted(role.glob("tasks/*.yml")) + sorted(role.glob("handlers/*.yml"))
    return [(file.name, task) for file in files for task in flattened(read(file))]


def test_what_is_judged_here_is_there() -> None:
    names = {
        "dflash_kit",
        "engine",
        "gpu_host",
        "host_checks",
        "image",
        "receipt",
        "smoke",
        "weights",
    }
    assert names <= {role.name for role in ROLES}
    verbs = {"deploy", "preflight", "smoke", "rollback", "stage_weights", "status"}
    assert verbs <= {playbook.stem for playbook in PLAYBOOKS}
    assert {inventory.name for inventory in INVENTORIES} == {"example", "local"}
    assert all(tasks_of(role) for role in ROLES)


@each_role
def test_argument_specs_are_the_defaults(role: Path) -> None:
    options = read(role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
    specified = {name: spec.get("default") for name, spec in options.items()}
    assert list(specified.items()) == list(read(role / "defaults" / "main.yml").items())
    for name, spec in options.items():
        assert spec["type"] in {"str", "path", "int", "bool", "list", "dict"}, name
        assert spec["description"].endswith("."), name


def shown(default: Any) -> str:
    """A default as a README has it: as YAML would, in one line."""
    return default if isinstance(default, str) and default else json.dumps(default)


@each_role
def test_the_readme_has_a_row_for_every_variable(role: Path) -> None:
    options = read(role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \| .+ \|$", (role / "README.md").read_text(), re.M)
    assert sorted(rows) == sorted((name, shown(spec["default"])) for name, spec in options.items())


def variables_of(task: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every variable that a task makes, and the role that it is for, if another."""
    called = next((task[key]["name"] for key in task if key.split(".")[-1] in CALLS), "")
    yield from ((name, called) for name in task.get("vars", {}) if not name.startswith("_"))
    names = [task.get("register"), *task.get("ansible.builtin.set_fact", {})]
    names += task.get("ansible.builtin.set_stats", {}).get("data", {})
    names += [task.get("loop_control", {}).get(key) for key in ("loop_var", "index_var")]
    yield from ((name, "") for name in names if name)


@each_role
def test_every_variable_begins_with_the_roles_name(role: Path) -> None:
    """But for an underscore, which is a variable of its task alone."""
    wrong = [name for name in OPTIONS if OPTIONS[name].role == role.name]
    wrong = [name for name in wrong if not name.startswith(f"{role.name}_")]
    for file, task in tasks_of(role):
        for name, called in variables_of(task):
            # What set_stats keeps of a host is one mapping, named after the role.
            if not f"{name}_".startswith(f"{called or role.name}_"):
                wrong.append(f"{file}: {task.get('name')}: {name}")
    assert wrong == []


@each_role
def test_every_task_and_block_says_what_it_ensures(role: Path) -> None:
    named = [(file, str(task.get("name"))) for file, task in tasks_of(role)]
    assert [each for each in named if not each[1].startswith("Ensure ")] == []


@each_role
def test_files_are_short(role: Path) -> None:
    lines = {str(file): len(file.read_text().splitlines()) for file in role.rglob("*.yml")}
    assert {file: count for file, count in lines.items() if count >= 120} == {}


def test_nothing_is_called_latest() -> None:
    files = [*ANSIBLE.rglob("*.yml"), *(paths.ROOT / "inventory").rglob("*.yml")]
    assert [str(file) for file in files if re.search(r"\blatest\b", file.read_text())] == []


@each_role
def test_what_handles_a_secret_is_not_logged(role: Path) -> None:
    for name, option in OPTIONS.items():
        if re.search("password|token|secret", name):
            assert option.secret, f"{name}: no_log"
    secrets = "|".join(name for name, option in OPTIONS.items() if option.secret)
    inside = re.compile(r"\{\{(?:(?!\}\}).)*\b(?:" + secrets + r")\b", re.DOTALL)
    loud = []
    for file, task in tasks_of(role):
        own = {key: value for key, value in task.items() if key not in PARTS}
        if inside.search(json.dumps(own)) and not task.get("no_log"):
            loud.append(f"{file}: {task['name']}")
    assert loud == []


@each_playbook
def test_a_playbook_is_short_and_begins_with_what_it_does_and_how_it_is_called(
    playbook: Path,
) -> None:
    text = playbook.read_text()
    header = re.match(r"(?:#.*\n)+", text)
    assert header is not None
    assert f"#   ansible-playbook -i inventory/example ansible/{playbook.name}" in header[0]
    assert header[0].splitlines()[0].endswith(".")
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    assert len(lines) <= 30


@each_playbook
def test_the_tasks_of_a_playbook_only_call_roles(playbook: Path) -> None:
    for play in read(playbook):
        tasks = list(flattened(play.get("pre_tasks", []) + play.get("tasks", [])))
        assert play.get("roles") or tasks
        for task in tasks:
            assert task["name"].startswith("Ensure ")
            assert {"ansible.builtin.import_role", *PARTS} & task.keys()


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda file: str(file.name))
def test_a_plugin_loads(plugin: Path) -> None:
    spec = importlib.util.spec_from_file_location(f"loaded_{plugin.stem}", plugin)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert callable(getattr(module, ENTRIES[plugin.parent.name]))
    if plugin.parent.name in ("modules", "library"):
        described = yaml.safe_load(module.DOCUMENTATION)
        assert described["module"] == plugin.stem
        assert yaml.safe_load(module.EXAMPLES)[0].keys() == {plugin.stem}


def ansible(command: str, *arguments: str | Path) -> str:
    """What a command of Ansible prints, run in the repository."""
    done = subprocess.run(
        [Path(sys.executable).parent / command, *arguments],
        cwd=paths.ROOT,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda folder: str(folder.name))
def test_the_playbooks_are_right_in_syntax(inventory: Path) -> None:
    printed = ansible("ansible-playbook", "--syntax-check", "-i", inventory, *PLAYBOOKS)
    for playbook in PLAYBOOKS:
        assert f"playbook: {playbook}" in printed


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda folder: str(folder.name))
def test_the_variables_of_the_inventories_are_right(inventory: Path) -> None:
    hosts = json.loads(ansible("ansible-inventory", "-i", inventory, "--list"))["_meta"]["hostvars"]
    assert hosts
    assert inputs.problems(hosts, OPTIONS, lambda host, name: host) == []


def test_the_groups_of_the_example_only_choose_a_profile() -> None:
    example = paths.ROOT / "inventory" / "example"
    hosts = read(example / "hosts.yml")
    assert {group: sorted(content["hosts"]) for group, content in hosts.items()} == {
        "rtx_pro_6000": ["gpu-01", "gpu-02"],
        "b300": ["gpu-11"],
    }
    for group in hosts:
        assert read(example / "group_vars" / f"{group}.yml").keys() == {"dflash_kit_profile"}
