import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from rollout_host import OPTIONS, PROFILE, RELEASE, image, plan

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.profiles.load import load_profile
from dflash_kit.releases import catalogue
from dflash_kit.rollout import images, inputs
from dflash_kit.rollout.images import Image
from dflash_kit.rollout.plan import Deployment, fingerprint, make_plan, plan_for, variant_of

GOOD = {"dflash_kit_profile": "cpu-tiny"}
DEFAULT = catalogue.load(paths.RELEASES_FILE).default
SAME = plan().deployment.id


def test_the_same_values_give_the_same_deployment() -> None:
    assert plan() == plan()
    assert plan(dflash_kit_port=30000).deployment.id == SAME
    assert plan(dflash_kit_port="30000").deployment == plan().deployment


@pytest.mark.parametrize(
    "change",
    [
        {"dflash_kit_port": 30001},
        {"dflash_kit_bind": "192.0.2.1"},
        {"dflash_kit_memory": "8g"},
        {"dflash_kit_models": "/data/models"},
        {"point": "throughput"},
        {"digits": "a" * 11 + "b" * 53},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_other_value_or_image_gives_another_deployment(change: dict[str, Any]) -> None:
    assert plan(**change).deployment.id != SAME


def test_another_profile_gives_another_deployment() -> None:
    values = inputs.settings({}, OPTIONS)
    other = PROFILE.model_copy(update={"name": "cpu-other"})
    assert make_plan(other, "latency", image(), values).deployment.id != SAME


def test_another_compose_file_gives_another_deployment(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compose = (paths.ROOT / "docker-compose.yml").read_text()
    (tmp_path / "docker-compose.yml").write_text(compose)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    assert plan().deployment.id == SAME
    (tmp_path / "docker-compose.yml").write_text(compose.replace("interval: 2s", "interval: 3s"))
    assert plan().deployment.id != SAME


@pytest.mark.parametrize(
    "change",
    [
        {"dflash_kit_serial": 2},
        {"dflash_kit_break_lock": "x"},
        {"dflash_kit_to": "x"},
        {"image_registry": "registry.example.net/engine", "image_registry_password": "secret"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_how_it_gets_there_is_no_part_of_a_deployment(change: dict[str, Any]) -> None:
    assert plan(**change) == plan()


def test_the_id_names_release_profile_and_point_and_is_the_files() -> None:
    made = plan("throughput")
    assert made.deployment.id == f"{RELEASE}-cpu-tiny-throughput-{fingerprint(made.files)}"


def test_what_moves_between_the_two_files_changes_the_fingerprint() -> None:
    one = {"compose.yaml": "ab", "engine.env": "c"}
    two = {"compose.yaml": "a", "engine.env": "bc"}
    assert fingerprint(one) != fingerprint(two)


def test_the_files_are_complete_and_the_one_that_says_so_is_last() -> None:
    made = plan(dflash_kit_bind="[::1]", dflash_kit_port="30001")
    assert list(made.files) == ["compose.yaml", "engine.env", "deployment.json"]
    assert made.files["compose.yaml"] == (paths.ROOT / "docker-compose.yml").read_text()
    assert made.files["engine.env"].splitlines() == [
        f"DFLASH_KIT_IMAGE=dflash-kit/engine:{RELEASE}-cpu-aaaaaaaaaaaa",
        f"DFLASH_KIT_RELEASE={RELEASE}",
        "DFLASH_KIT_VARIANT=cpu",
        "DFLASH_KIT_PROFILE=cpu-tiny",
        "DFLASH_KIT_POINT=latency",
        "DFLASH_KIT_PORT=30001",
        "DFLASH_KIT_BIND=[::1]",
        "DFLASH_KIT_MEMORY=4g",
        "DFLASH_KIT_MODELS=/srv/models",
    ]
    assert Deployment.model_validate_json(made.files["deployment.json"]) == made.deployment
    assert made.deployment.port == 30001
    assert made.deployment.config == "sha256:" + "a" * 64
    assert made.deployment.limits == PROFILE.limits


def test_every_variable_of_the_environment_file_is_one_of_the_compose_file() -> None:
    made = plan()
    # What compose does not read itself names the deployment for people.
    named = {"DFLASH_KIT_RELEASE", "DFLASH_KIT_VARIANT"}
    for line in made.files["engine.env"].splitlines():
        name = line.partition("=")[0]
        assert "${" + name in made.files["compose.yaml"] or name in named


def test_a_gpu_profile_takes_the_cuda_variant_and_its_service() -> None:
    profile = load_profile("h200-x1")
    made = make_plan(profile, "latency", image(), inputs.settings({}, OPTIONS))
    assert (variant_of(profile), variant_of(PROFILE)) == ("cuda", "cpu")
    assert (made.deployment.variant, made.deployment.service) == ("cuda", "engine-gpu")
    assert (plan().deployment.variant, plan().deployment.service) == ("cpu", "engine")


@pytest.mark.parametrize("value", ["a b", "a\nDFLASH_KIT_POINT=x", "$(id)", "'x'", "a#b", "ü"])
def test_a_value_that_an_environment_file_would_read_otherwise_is_refused(value: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(dflash_kit_models=value)
    told = str(caught.value)
    assert told.startswith(f"dflash_kit_models: got {value!r}, wanted ")
    assert "\n" not in told


def test_nothing_of_a_deployment_is_secret() -> None:
    made = plan(image_registry_password="hunter2", image_registry_username="user")
    assert "hunter2" not in json.dumps(made.files)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Where images were looked for: every place has every image."""
    seen: list[tuple[Any, ...]] = []

    def place(name: str) -> Any:
        def look(*arguments: Any, **more: Any) -> Image:
            seen.append((name, *arguments, more) if more else (name, *arguments))
            return image()

        return look

    for name in ("from_registry", "from_archive", "from_docker"):
        monkeypatch.setattr(images, name, place(name))
    return seen


def values(**variables: Any) -> dict[str, Any]:
    return inputs.settings(GOOD | variables, OPTIONS)


def test_the_image_comes_from_the_one_place_that_is_set(asked: list[tuple[Any, ...]]) -> None:
    login = {"image_registry_username": "u", "image_registry_password": "p"}
    registry = values(image_registry="r.example.net/e", image_registry_ca="/ca", **login)
    plan_for(registry, False, {})
    plan_for(values(image_archive="x.tar.zst"), False, {})
    plan_for(values(dflash_kit_release="0.5.11-dflash.1"), True, {})
    assert asked == [
        (
            "from_registry",
            "r.example.net/e",
            DEFAULT,
            "cpu",
            {"username": "u", "password": "p", "ca": "/ca"},
        ),
        ("from_archive", Path("x.tar.zst"), DEFAULT, "cpu"),
        ("from_docker", "0.5.11-dflash.1", "cpu"),
    ]


def test_hosts_that_want_the_same_image_look_for_it_once(asked: list[tuple[Any, ...]]) -> None:
    known: dict[Any, Image] = {}
    for _ in range(3):
        plan_for(values(image_archive="x"), False, known)
    plan_for(values(image_archive="y"), False, known)
    assert [each[1] for each in asked] == [Path("x"), Path("y")]


@pytest.mark.parametrize("is_here", [True, False])
def test_two_places_for_an_image_or_none_are_refused(
    asked: list[tuple[Any, ...]], is_here: bool
) -> None:
    with pytest.raises(InputError, match="^image_registry, image_archive: got both, wanted one"):
        plan_for(values(image_registry="r", image_archive="x"), is_here, {})
    if not is_here:
        with pytest.raises(InputError, match="^image_registry, image_archive: got neither, "):
            plan_for(values(), is_here, {})
    assert asked == []


def test_a_plan_is_what_the_host_is_to_run(asked: list[tuple[Any, ...]]) -> None:
    plan, found = plan_for(values(dflash_kit_point="throughput"), True, {})
    assert found == image()
    assert plan.deployment.point == "throughput"
    assert json.loads(plan.files["deployment.json"])["id"] == plan.deployment.id


def test_a_withdrawn_release_is_refused_before_its_image_is_looked_for(
    asked: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = yaml.safe_load(paths.RELEASES_FILE.read_text())
    (other,) = [name for name in content["releases"] if name == "0.5.11-dflash.1"]
    withdrawn = {"since": date(2026, 6, 1), "why": "wrong text"}
    content["releases"][other] = content["releases"][other] | {"withdrawn": withdrawn}
    (tmp_path / "releases.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(paths, "RELEASES_FILE", tmp_path / "releases.yaml")
    line = f"^release: {other} is withdrawn since 2026-06-01: wrong text; next: take 0.5.11-dflash"
    with pytest.raises(InputError, match=line):
        plan_for(values(dflash_kit_release=other), True, {})
    assert asked == []
    plan_for(values(), True, {})
