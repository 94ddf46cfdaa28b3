"""The tree hash follows the sources and nothing else."""

import hashlib
from pathlib import Path

import pytest

from dflash_kit.releases import tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {"b.py": "b", "a/z.py": "z", "a-b.py": "dash"}.items():
        file = tmp_path / "sglang" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_listing_is_sorted_by_path_in_the_format_of_sha256sum(root: Path) -> None:
    expected = [("sglang/a-b.py", "dash"), ("sglang/a/z.py", "z"), ("sglang/b.py", "b")]
    lines = [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in expected]
    assert tree.listing(root) == "".join(lines)
    assert tree.tree_sha256(root) == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_what_python_and_the_file_system_add_does_not_count(root: Path) -> None:
    before = tree.tree_sha256(root)
    (root / "sglang" / "__pycache__").mkdir()
    (root / "sglang" / "__pycache__" / "b.cpython-311.pyc").write_bytes(b"x")
    (root / "sglang" / "__pycache__" / "leftover").write_bytes(b"x")
    (root / "sglang" / "loose.pyc").write_bytes(b"x")
    (root / "beside.py").write_text("not below sglang/")
    (root / "sglang" / "empty").mkdir()
    (root / "sglang" / "b.py").chmod(0o755)
    assert tree.tree_sha256(root) == before


@pytest.mark.parametrize("change", ["edit", "add", "remove", "rename"])
def test_every_change_of_a_source_counts(root: Path, change: str) -> None:
    before = tree.tree_sha256(root)
    file = root / "sglang" / "b.py"
    if change == "edit":
        file.write_text("B")
    elif change == "add":
        (root / "sglang" / "c.so").write_bytes(b"")
    elif change == "remove":
        file.unlink()
    else:
        file.rename(root / "sglang" / "c.py")
    assert tree.tree_sha256(root) != before


def test_no_tree_has_no_hash(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="sglang"):
        tree.tree_sha256(tmp_path)
