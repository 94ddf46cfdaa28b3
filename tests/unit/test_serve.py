"""What serve refuses before an engine starts, and what it starts."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from host_documents import MISSING, gpu_answer
from ports import free_port

from dflash_kit import paths
from dflash_kit.engine import caches, config, processes, serve
from dflash_kit.errors import InputError
from dflash_kit.host.facts import Host
from dflash_kit.profiles.load import load_pair, load_profile
from dflash_kit.releases import tree

FORBIDDEN = ("SGLANG_LOG_REQUEST_HEADERS", "SGLANG_SIMULATE_ACC_LEN")


def write_model(folder: Path, config: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").touch()


def write_models(root: Path) -> None:
    """Configurations that fit the tiny pair, without weights worth the name."""
    match = load_pair("tiny").match
    shared = {
        "hidden_size": match.hidden_size,
        "vocab_size": match.vocab_size,
        "dtype": match.dtype,
    }
    dflash = {"mask_token_id": match.mask_token_id, "target_layer_ids": match.target_layer_ids}
    depth = max(match.target_layer_ids) + 1
    write_model(root / "models/tiny/target", shared | {"num_hidden_layers": depth})
    draft = {"block_size": match.block_size, "num_target_layers": depth, "dflash_config": dflash}
    write_model(root / "models/tiny/draft", shared | draft)


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root as in an image: models, an sglang of two files, and the build's record of it."""
    write_models(tmp_path)
    package = tmp_path / "opt" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text("raise SystemExit(7)")
    listing = tree.listing(package.parent)
    record = {
        "release": "1.0-dflash.1",
        "variant": "cpu",
        "sglang": "1.0",
        "tree": tree.listing_sha256(listing),
        "patches": [{"name": "a.patch", "subject": "s", "sha256": "0"}],
    }
    (tmp_path / "patches.json").write_text(json.dumps(record))
    (tmp_path / "tree.sha256").write_text(listing)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "PATCHES_FILE", tmp_path / "patches.json")
    monkeypatch.setattr(serve, "here", lambda: Host({"commands": {"gpus": MISSING}}))
    for variable in ("DFLASH_KIT_CACHE", *FORBIDDEN):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("DFLASH_KIT_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("DFLASH_KIT_RUN", str(tmp_path / "run"))
    return tmp_path


def refused(root: Path, *, profile: str | None = None, point: str = "latency", port: int) -> str:
    """The message of a refusal, after checking that nothing was written."""
    with pytest.raises(InputError) as caught:
        serve.make_plan(profile, point, port)
    assert not (root / "keys").exists() and not (root / "run").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_plan_says_what_runs_and_shows_no_key(image: Path) -> None:
    port = free_port()
    plan = serve.make_plan(None, "latency", port)
    facts = plan.facts()
    assert facts["release"] == "1.0-dflash.1 (cpu)"
    assert facts["patches"] == "a.patch"
    assert (facts["profile"], facts["point"], facts["port"]) == ("cpu-tiny", "latency", str(port))
    arguments = yaml.safe_load(Path(plan.command[-1]).read_text())
    assert arguments["port"] == port
    assert arguments["api-key"] == plan.user_key == (image / "keys/user").read_text().strip()
    shown = f"{facts} {plan!r}"
    for role in ("user", "admin"):
        assert (image / "keys" / role).read_text().strip() not in shown


def test_the_engine_is_strict_unless_the_profile_says_otherwise() -> None:
    profile, pair, keys = load_profile("cpu-tiny"), load_pair("tiny"), config.REDACTED
    assert config.render(profile, pair, "latency", keys).environment["DFLASH_KIT_STRICT"] == "1"
    loose = profile.engine.environment | {"DFLASH_KIT_STRICT": "0"}
    engine = profile.engine.model_copy(update={"environment": loose})
    profile = profile.model_copy(update={"engine": engine})
    assert config.render(profile, pair, "latency", keys).environment["DFLASH_KIT_STRICT"] == "0"


def test_the_identity_file_is_what_the_engine_reports(image: Path) -> None:
    plan = serve.make_plan("cpu-tiny", "throughput", free_port())
    identity = json.loads(Path(plan.environment[serve.IDENTITY_VARIABLE]).read_text())
    record = json.loads((image / "patches.json").read_text())
    assert identity == {
        "release": "1.0-dflash.1",
        "variant": "cpu",
        "sglang": "1.0",
        "patches": ["a.patch"],
        "tree": record["tree"],
        "profile": "cpu-tiny",
        "point": "throughput",
        "gpus": [],
        "driver": None,
    }


def test_the_identity_names_the_gpus_of_the_host(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gpu_profile(image, monkeypatch)
    host = Host({"commands": {"gpus": gpu_answer("Testcard 9", driver="590.1", capability="8.0")}})
    monkeypatch.setattr(serve, "here", lambda: host)
    monkeypatch.setenv("DFLASH_KIT_CACHE", str(image / "cache"))
    identity = serve.make_plan("gpu", "latency", free_port()).identity
    assert (identity.gpus, identity.driver) == (["Testcard 9"] * 8, "590.1")


def test_outside_an_image_the_release_is_called_unreleased(image: Path) -> None:
    (image / "patches.json").unlink()
    plan = serve.make_plan(None, "latency", free_port())
    assert plan.identity.release == "unreleased"
    assert len(plan.identity.tree) == 64


def test_changed_added_and_missing_files_are_named(image: Path) -> None:
    package = image / "opt/sglang"
    (package / "__init__.py").write_text("#")
    (package / "launch_server.py").unlink()
    (package / "new.py").touch()
    message = refused(image, port=free_port())
    assert "added sglang/new.py, changed sglang/__init__.py, missing sglang/launch_server.py" in (
        message
    )


def test_a_record_that_is_none_is_refused(image: Path) -> None:
    (image / "patches.json").write_text('{"release": "x"}')
    assert "not the record of a build" in refused(image, port=free_port())


def test_unknown_profile_and_point_are_refused(image: Path) -> None:
    assert "unknown profile 'x'" in refused(image, profile="x", port=free_port())
    assert "unknown point 'x'" in refused(image, point="x", port=free_port())


def test_missing_model_is_refused(image: Path) -> None:
    (image / "models/tiny/draft/model.safetensors").unlink()
    assert "the weights are missing" in refused(image, port=free_port())


def test_pair_mismatch_is_refused(image: Path) -> None:
    file = image / "models/tiny/draft/config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"block_size": 16}))
    assert "pair tiny: draft block_size: got 16, wanted 8" in refused(image, port=free_port())


def test_taken_port_is_refused(image: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} on 0.0.0.0: Address already in use" in refused(image, port=port)


@pytest.mark.parametrize(
    ("version", "text", "got"),
    [("v2", "629145600\n", 600), ("v2", "max\n", None), ("v1", "629145600\n", 600)],
)
def test_too_little_memory_is_refused(
    image: Path, monkeypatch: pytest.MonkeyPatch, version: str, text: str, got: int | None
) -> None:
    limit = image / "limit"
    limit.write_text(text)
    absent = image / "absent"
    files = (limit, absent) if version == "v2" else (absent, limit)
    monkeypatch.setattr(processes, "_MEMORY_LIMITS", files)
    if got is None:
        assert serve.make_plan(None, "latency", free_port())
    else:
        message = refused(image, port=free_port())
        assert f"got {got} MiB" in message and "wanted 1536" in message


@pytest.mark.parametrize("port", [-1, 0, 70000])
def test_impossible_port_is_refused(image: Path, port: int) -> None:
    assert refused(image, port=port) == f"--port: got {port}, wanted a port: 1 to 65535"


@pytest.mark.parametrize(
    ("variable", "value"),
    [(FORBIDDEN[0], "x-a, Authorization"), (FORBIDDEN[1], "4")],
)
def test_an_environment_that_shows_keys_or_fakes_acceptance_is_refused(
    image: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert f"{variable}: got {value!r}" in refused(image, port=free_port())


def test_other_headers_may_be_logged(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORBIDDEN[0], "x-request-id")
    assert serve.make_plan(None, "latency", free_port())


def write_gpu_profile(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile `gpu`, made for 8 x Testcard 9."""
    content = yaml.safe_load((paths.PROFILES / "cpu-tiny.yaml").read_text())
    content |= {
        "name": "gpu",
        "hardware": {
            "memory_mib": 1,
            "accelerator": "Testcard 9",
            "count": 8,
            "gpu_memory_mib": 80000,
            "compute_capability": "8.0",
        },
    }
    (image / "profiles").mkdir()
    (image / "profiles/gpu.yaml").write_text(yaml.safe_dump(content))
    lock = image / "images/1.0-dflash.1/requirements-cuda.txt"
    lock.parent.mkdir(parents=True)
    lock.write_text("nvidia-cuda-runtime==13.0.96 \\\n    --hash=sha256:0\n")
    monkeypatch.setattr(paths, "IMAGES", image / "images")
    monkeypatch.setattr(paths, "PROFILES", image / "profiles")


def test_kernels_are_kept_apart_by_tree_profile_and_driver(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gpu_profile(image, monkeypatch)
    cache = image / "cache"

    def triton_folder(driver: str) -> Path:
        gpus = gpu_answer("Testcard 9", driver=driver, capability="8.0")
        host = Host({"commands": {"gpus": gpus}})
        monkeypatch.setattr(serve, "here", lambda: host)
        return Path(serve.make_plan("gpu", "latency", free_port()).environment["TRITON_CACHE_DIR"])

    with pytest.raises(KeyError):  # the engine's own default
        triton_folder("590.1")
    monkeypatch.setenv("DFLASH_KIT_CACHE", str(cache))
    first = triton_folder("590.1")
    assert first.is_dir() and first.parents[1] == cache
    assert triton_folder("590.1") == first
    assert triton_folder("590.2") != first
    keys = {caches.cache_environment(*facts)["TRITON_CACHE_DIR"] for facts in ("abc", "xbc", "ayc")}
    assert len(keys) == 3


def test_no_cache_without_a_gpu_and_one_line_where_it_cannot_be_made(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (image / "cache").touch()
    monkeypatch.setenv("DFLASH_KIT_CACHE", str(image / "cache"))
    assert "TRITON_CACHE_DIR" not in serve.make_plan(None, "latency", free_port()).environment
    with pytest.raises(InputError, match=r"cache: .* cannot be written: .*DFLASH_KIT_CACHE"):
        caches.cache_environment("tree", "gpu", "9.1")


def test_hardware_that_a_profile_does_not_accept_is_refused(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gpu_profile(image, monkeypatch)
    message = refused(image, profile="gpu", port=free_port())
    assert message.startswith(
        "profile gpu: wanted 8 x Testcard 9, this host has no GPU: gpu-count: got 0 GPUs, wanted 8"
    )
    for gpus, reason in (
        (gpu_answer("Testcard 9", 7), "this host has 7 x Testcard 9: gpu-count: got 7 GPUs"),
        (gpu_answer("Testcard 8"), "gpu-name: got 8 x Testcard 8, wanted all alike"),
        (gpu_answer("Testcard 9", mig="Enabled"), "mig: got GPU 0 Enabled"),
        (gpu_answer("Testcard 9", driver="575.57.08"), "575.57.08, wanted 580.65.06 or newer"),
        (gpu_answer("Testcard 9", memory="1 MiB"), "gpu-memory: got GPU 0 1 MiB"),
        (gpu_answer("Testcard 9", capability="7.5"), "compute-capability: got GPU 0 7.5"),
    ):
        host = Host({"commands": {"gpus": gpus}})
        monkeypatch.setattr(serve, "here", lambda host=host: host)
        message = refused(image, profile="gpu", port=free_port())
        assert "wanted 8 x Testcard 9, this host has" in message and reason in message


def run_serve(image: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command itself, with the image's sglang."""
    command = "from dflash_kit.cli import main; main()"
    environment = {
        "PATH": str(image),  # no nvidia-smi
        "PYTHONPATH": f"{image / 'opt'}:{Path(paths.__file__).parents[1]}",
        "DFLASH_KIT_ROOT": str(image),
        "DFLASH_KIT_KEYS": str(image / "keys"),
        "DFLASH_KIT_RUN": str(image / "run"),
    }
    return subprocess.run(
        [sys.executable, "-c", command, "serve", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.fixture
def installed(image: Path) -> Path:
    (image / "images").symlink_to(paths.IMAGES)
    return image


def test_bad_input_is_one_line_and_exit_2(installed: Path) -> None:
    result = run_serve(installed, "--profile", "x")
    assert result.returncode == 2
    assert result.stderr.startswith("dflash-kit: unknown profile 'x': wanted one of: ")
    assert len(result.stderr.splitlines()) == 1


def test_an_engine_that_fails_is_exit_1_with_its_code(installed: Path) -> None:
    result = run_serve(installed, "--profile", "cpu-tiny", "--port", str(free_port()), "--json")
    assert result.returncode == 1, result.stderr
    assert "ended by itself, with exit code 7" in result.stderr
    assert json.loads(result.stdout)["profile"] == "cpu-tiny"
    for role in ("user", "admin"):
        assert (installed / "keys" / role).read_text().strip() not in result.stdout + result.stderr
