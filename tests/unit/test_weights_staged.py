"""The models of a pair in a host's folder of weights: where, from where, and whether they fit."""

import json
from pathlib import Path

import pytest
import yaml
from weights_pair import REVISION, files_of, staged_pair

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.profiles.load import load_pair
from dflash_kit.profiles.models import Pair
from dflash_kit.weights import staged
from dflash_kit.weights.manifest import manifest_file
from dflash_kit.weights.verify import make_manifest

PAIR = staged_pair()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Both models, each with its manifest."""
    files_of(tmp_path)
    for name in ("target", "draft"):
        write_manifest(tmp_path / "us" / name, f"us/{name}", REVISION)
    return tmp_path


def write_manifest(folder: Path, repository: str | None, revision: str | None) -> None:
    make_manifest(folder, repository, revision).write(manifest_file(folder))


def wrong(weights: Path, pair: Pair = PAIR) -> list[str]:
    return [line for each in staged.verify_pair(pair, weights, full=False) for line in each.wrong]


def test_weights_are_where_compose_mounts_them() -> None:
    compose = yaml.safe_load((paths.ROOT / "docker-compose.yml").read_text())
    volumes = compose["services"]["engine-gpu"]["volumes"]
    assert [each for each in volumes if each.endswith(f":{staged.MOUNT}:ro")]


def test_a_pair_of_the_image_needs_nothing_on_the_host() -> None:
    assert staged.staged(load_pair("tiny")) == []


def test_the_folders_are_those_that_the_profile_names() -> None:
    found = staged.staged(load_pair("kimi-k2.6-int4"))
    assert [(each.role, str(each.folder)) for each in found] == [
        ("target", "moonshotai/Kimi-K2.6"),
        ("draft", "z-lab/Kimi-K2.6-DFlash"),
    ]


@pytest.mark.parametrize("path", ["/models", "/srv/models/draft"])
def test_a_model_that_no_container_would_find_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="draft.path: got .*, wanted a folder below /models"):
        staged.staged(staged_pair(path=path))


def test_a_model_that_is_not_pinned_is_not_fetched() -> None:
    staged.refuse_unpinned(PAIR)
    with pytest.raises(InputError) as refused:
        staged.refuse_unpinned(staged_pair(repository=None, revision=None))
    assert [line.split(":")[1] for line in str(refused.value).splitlines()] == [
        " draft.repository",
        " draft.revision",
    ]


def test_a_pair_that_is_whole_passes(weights: Path) -> None:
    assert [each.files for each in staged.verify_pair(PAIR, weights, full=True)] == [6, 2]
    assert wrong(weights) == []


def test_both_models_are_looked_at_before_it_is_said_what_is_wrong(weights: Path) -> None:
    (weights / "us/target/config.json").unlink()
    (weights / "us/draft").rename(weights / "us/elsewhere")
    assert wrong(weights) == [
        f"{weights}/us/target/config.json: is missing",
        f"{weights}/us/draft: is missing",
    ]


@pytest.mark.parametrize("revision", [None, "f" * 40])
def test_another_revision_is_not_what_the_pair_names(weights: Path, revision: str | None) -> None:
    write_manifest(weights / "us/draft", "us/draft", revision)
    (line,) = wrong(weights)
    got = revision or "none in its manifest"
    assert line.startswith(f"{weights}/us/draft: revision: got {got}, wanted {REVISION}; next: ")
    assert wrong(weights, staged_pair(revision=None)) == []


def test_models_that_do_not_fit_each_other_are_found_before_a_switch(weights: Path) -> None:
    file = weights / "us/draft/config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"block_size": 16}))
    write_manifest(weights / "us/draft", "us/draft", REVISION)
    assert wrong(weights) == ["pair tiny: draft block_size: got 16, wanted 8"]


def test_a_source_has_a_manifest_of_every_model(weights: Path) -> None:
    staged.refuse_source(PAIR, weights)
    manifest_file(weights / "us/target").unlink()
    write_manifest(weights / "us/draft", "us/draft", "f" * 40)
    with pytest.raises(InputError) as refused:
        staged.refuse_source(PAIR, weights)
    target, draft = str(refused.value).splitlines()
    command = f"dflash-kit weights manifest {weights}/us/target --repository us/target"
    assert "manifest.json: is missing; next: " in target and command in target
    assert draft.startswith(f"{weights}/us/draft: revision: got {'f' * 40}")
