"""The trees that the tests of patches run on: right, and what is alike in two is there once."""

from importlib.util import cache_from_source
from pathlib import Path

import pytest

from dflash_kit.releases.tree import listing
from tests.patches import check
from tests.unit.miniature_release import LINES, Miniature, edited

A, B = "sglang/a.py", "sglang/srt/b.py"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    small = Miniature(tmp_path)
    check.prepare(small.dir, small.wheel, tmp_path / "trees")
    return tmp_path / "trees"


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines(keepends=True)


def test_each_tree_has_its_patches_and_no_other(trees: Path) -> None:
    assert lines(trees / "unpatched" / A) == lines(trees / "unpatched" / B) == LINES
    assert lines(trees / "patched" / A) == edited(LINES, 5, 50)
    assert lines(trees / "patched" / B) == edited(LINES, 10, 40)
    assert lines(trees / "without-first" / A) == edited(LINES, 50)
    assert lines(trees / "without-second" / A) == edited(LINES, 5)
    assert lines(trees / "without-second" / B) == LINES


def test_a_file_that_is_alike_is_the_same_file(trees: Path) -> None:
    inodes = {
        (tree.name, file): (tree / file).stat().st_ino
        for tree in trees.iterdir()
        for file in (A, B)
    }
    assert inodes["without-first", B] == inodes["patched", B]
    assert inodes["without-second", B] == inodes["unpatched", B]
    assert len({inodes[tree.name, A] for tree in trees.iterdir()}) == 4


def test_bytecode_is_that_of_the_same_file_and_of_no_other(trees: Path) -> None:
    before = {tree.name: listing(tree) for tree in trees.iterdir()}
    for tree in ("patched", "unpatched"):
        for file in (A, B):
            compiled = Path(cache_from_source(str(trees / tree / file)))
            compiled.parent.mkdir(exist_ok=True)
            compiled.write_text(f"{tree} {file}")
    check.share_bytecode(trees)
    found = {
        (tree.name, file): Path(cache_from_source(str(tree / file)))
        for tree in trees.glob("without-*")
        for file in (A, B)
    }
    assert {key: file.read_text() for key, file in found.items() if file.exists()} == {
        ("without-first", B): f"patched {B}",
        ("without-second", B): f"unpatched {B}",
    }
    check.drop_bytecode(trees)
    assert {tree.name: listing(tree) for tree in trees.iterdir()} == before
    assert [*trees.rglob("__pycache__")] == []
