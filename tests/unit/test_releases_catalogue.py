"""releases.yaml: a mistake is one line that names file, field, got and wanted."""

from pathlib import Path

import pytest
from miniature_release import CATALOGUE, NAME

from dflash_kit.errors import InputError
from dflash_kit.releases import catalogue

MISTAKES = [
    ('python: "3.11"', "python: 3.11", f"releases.{NAME}.python: got 3.11, wanted a valid string"),
    ("2026-05-20", "May", f"releases.{NAME}.cutoff: got 'May', wanted a valid date"),
    ("uv: 0.13.9", "uvx: 0.13.9", f"releases.{NAME}.uv: got nothing, wanted a value"),
    (
        "uv: 0.13.9",
        "uvx: 1",
        f"releases.{NAME}.uvx: got an unknown field, wanted none of this name",
    ),
    ("cuda: {}", "rocm: {}", f"releases.{NAME}.variants.cuda: got nothing, wanted a value"),
    (f"default: {NAME}", "default: x", f"default: got 'x', wanted one of: {NAME}"),
    ('sglang: "1.0"', 'sglang: "1.1"', f"releases: got '{NAME}', wanted 1.1-dflash.<number>"),
    (
        "- sglang/test",
        "- etc",
        f"releases.{NAME}.drop.0: got 'etc', wanted match pattern '^sglang/.'",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "line"), MISTAKES)
def test_a_mistake_is_named(right: str, wrong: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / "releases.yaml"
    assert right in CATALOGUE
    file.write_text(CATALOGUE.replace(right, wrong))
    with pytest.raises(InputError) as caught:
        catalogue.load(file)
    assert f"{file}: {line}" in str(caught.value).splitlines()


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "releases.yaml"
    file.write_text(CATALOGUE.replace("2026-05-20", "May").replace("cuda: {}", "cuda: {x: 1}"))
    with pytest.raises(InputError) as caught:
        catalogue.load(file)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("text", ["default: [", "a: \x00", "cutoff: 2026-99-99"])
def test_a_file_that_is_no_yaml_is_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "releases.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=f"^{file}: is not YAML: .+$"):
        catalogue.load(file)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file or directory$"):
        catalogue.load(tmp_path / "none.yaml")


def test_an_unknown_release_is_named(tmp_path: Path) -> None:
    file = tmp_path / "releases.yaml"
    file.write_text(CATALOGUE)
    with pytest.raises(InputError, match=f"^release: got 'x', wanted one of: {NAME}$"):
        catalogue.load(file).named("x")
