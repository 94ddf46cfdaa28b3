"""Profile files, the choice of one, and what is rendered from it."""

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from host_documents import MISSING
from typer.testing import CliRunner

from dflash_kit import paths
from dflash_kit.engine import config, probe
from dflash_kit.engine.keys import Keys
from dflash_kit.errors import InputError
from dflash_kit.host.facts import Host
from dflash_kit.profiles.cli import app
from dflash_kit.profiles.load import load_pair, load_profile, profile_names

LIMITS = ("start_seconds", "hang_seconds", "drain_seconds")
NO_GPU = {"gpus": MISSING}
KEYS = Keys(user="user-secret", admin="admin-secret")


def change(file: Path, **fields: Any) -> None:
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | fields))


def test_every_profile_of_the_repository_loads_with_its_pair() -> None:
    assert "cpu-tiny" in profile_names()
    for name in profile_names():
        load_pair(load_profile(name).pair)


def test_unknown_names_tell_the_known_ones(profiles: Path) -> None:
    with pytest.raises(InputError, match="unknown profile 'x': wanted one of: cpu-tiny, two-gpus"):
        load_profile("x")
    with pytest.raises(InputError, match="unknown pair 'x': wanted one of: .*tiny"):
        load_pair("x")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"colour": "red"}, "colour: got 'red': extra inputs are not permitted"),
        ({"limits": {}}, "limits.start_seconds: field required"),
        ({"points": {"fast": {"dflash": True}}}, "points.fast"),
        ({"name": "other"}, "name: got 'other', wanted 'cpu-tiny'"),
        ({"summary": 3}, "summary: got 3: "),
        *(
            ({"engine": {"arguments": arguments, "environment": {}}}, "wanted a port: 1 to 65535")
            for arguments in ({}, {"port": "30000"}, {"port": True}, {"port": 99999})
        ),
        (
            {"limits": dict.fromkeys(LIMITS, float("inf"))},
            "limits.hang_seconds: got inf: input should be a finite number",
        ),
        (
            {"hardware": {"memory_mib": 1, "accelerator": "none", "count": 1}},
            "count 1 does not go with",
        ),
    ],
)
def test_a_mistake_is_one_line_with_file_and_field(
    profiles: Path, fields: dict[str, Any], said: str
) -> None:
    file = profiles / "cpu-tiny.yaml"
    change(file, **fields)
    with pytest.raises(InputError) as caught:
        load_profile("cpu-tiny")
    message = str(caught.value)
    assert message.startswith(f"{file}: ") and said in message and "\n" not in message


@pytest.mark.parametrize("text", ["a: [", "just text", "\x00", "summary: 2026-99-99"])
def test_a_file_that_is_no_profile_at_all(profiles: Path, text: str) -> None:
    file = profiles / "cpu-tiny.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_profile("cpu-tiny")
    assert str(caught.value).startswith(f"{file}: ") and "\n" not in str(caught.value)


def test_a_profile_extends_another_field_by_field(profiles: Path) -> None:
    text = {"name": "more", "extends": "two-gpus", "engine": {"arguments": {"ep-size": 2}}}
    (profiles / "more.yaml").write_text(yaml.safe_dump(text))
    more, base = load_profile("more"), load_profile("two-gpus")
    assert more.engine.arguments == {**base.engine.arguments, "ep-size": 2}
    assert more.hardware == base.hardware and more.engine.environment == base.engine.environment


@pytest.mark.parametrize("base", ["cpu-tiny", "gone", "loop", None, ["two-gpus"]])
def test_what_cannot_be_extended(profiles: Path, base: Any) -> None:
    change(profiles / "cpu-tiny.yaml", extends="loop" if base == "loop" else base)
    if base == "loop":
        change(profiles / "two-gpus.yaml", extends="cpu-tiny", name="two-gpus")
        change(profiles / "cpu-tiny.yaml", extends="two-gpus")
    with pytest.raises(InputError, match=r"extends: got .*, wanted one of: |extends: .*: none"):
        load_profile("cpu-tiny")


def test_a_container_s_shared_memory_is_what_its_profile_counts_with() -> None:
    compose = yaml.safe_load((paths.ROOT / "docker-compose.yml").read_text())
    given = compose["services"]["engine-gpu"]["shm_size"]
    for name in ("rtx-pro-6000-x8", "b300-x8"):
        assert given == f"{load_profile(name).hardware.shm_mib // 1024}g"


def test_dflash_is_on_at_latency_alone() -> None:
    profile, pair = load_profile("cpu-tiny"), load_pair("tiny")
    latency = config.render(profile, pair, "latency", KEYS)
    throughput = config.render(profile, pair, "throughput", KEYS)
    added = latency.arguments.keys() - throughput.arguments.keys()
    assert added == {
        "speculative-algorithm",
        "speculative-draft-model-path",
        "speculative-num-draft-tokens",
    }
    assert latency.arguments["speculative-num-draft-tokens"] == pair.match.block_size
    assert latency.arguments["speculative-draft-model-path"] == str(pair.draft.folder)
    assert throughput.arguments["model-path"] == str(pair.target.folder)


def test_keys_are_arguments_and_never_environment() -> None:
    rendered = config.render(load_profile("cpu-tiny"), load_pair("tiny"), "latency", KEYS, 31000)
    assert rendered.arguments["api-key"] == KEYS.user
    assert rendered.arguments["admin-api-key"] == KEYS.admin
    assert rendered.port == 31000
    assert "secret" not in str(rendered.environment)


def test_repr_shows_no_key() -> None:
    rendered = config.render(load_profile("cpu-tiny"), load_pair("tiny"), "latency", KEYS)
    assert "secret" not in repr(rendered)


def test_every_file_that_names_the_port_names_the_same() -> None:
    compose = yaml.safe_load((paths.ROOT / "docker-compose.yml").read_text())
    ports = {
        port for name in ("engine", "engine-gpu") for port in compose["services"][name]["ports"]
    }
    exposed = re.findall(r"^EXPOSE (\d+)$", (paths.ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert [port.rpartition(":")[2] for port in ports] == exposed == [str(probe.DEFAULT_PORT)]
    for name in profile_names():
        assert load_profile(name).engine.arguments["port"] == probe.DEFAULT_PORT, name


def test_unknown_point_tells_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown point 'x': .* has: latency, throughput"):
        config.render(load_profile("cpu-tiny"), load_pair("tiny"), "x", KEYS)


def test_the_configuration_file_is_private_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFLASH_KIT_RUN", str(tmp_path / "run"))
    folder = config.run_dir()
    file = config.write_config({"port": 1}, folder)
    file.chmod(0o644)
    assert config.write_config({"port": 2, "api-key": "12e5"}, folder) == file
    assert file.suffix == ".yaml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert yaml.safe_load(file.read_text()) == {"port": 2, "api-key": "12e5"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [entry.name for entry in folder.iterdir()] == [file.name]


def test_a_run_folder_that_others_could_have_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for name in ("link", "open"):
        monkeypatch.setenv("DFLASH_KIT_RUN", str(tmp_path / name))
        with pytest.raises(InputError, match=f"run folder: .*{name}"):
            config.run_dir()


def test_a_run_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFLASH_KIT_RUN", str(tmp_path))
    tmp_path.chmod(0o700)
    assert config.run_dir() == tmp_path
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    with pytest.raises(InputError, match=f"run folder: .*wanted a folder of uid {other} "):
        config.run_dir()


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["list", "--json"], "cpu-tiny"),
        (["show", "cpu-tiny", "--json"], "torch_native"),
        (["render", "cpu-tiny", "--json"], "<redacted>"),
        (["detect", "--json"], "cpu-tiny"),
    ],
)
def test_every_command_prints_json(
    arguments: list[str], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dflash_kit.profiles.cli.here", lambda: Host({"commands": NO_GPU}))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert wanted in json.dumps(json.loads(result.stdout))


def test_render_prints_no_key() -> None:
    result = CliRunner().invoke(app, ["render", "cpu-tiny", "--point", "throughput"])
    assert result.exit_code == 0, result.output
    assert "--api-key <redacted>" in result.stdout
    assert "--speculative-algorithm" not in result.stdout
