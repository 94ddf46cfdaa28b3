"""Baked kernels begin a cache, and are found under the one path that they were made under."""

import os
import shutil
from pathlib import Path

import pytest
from host_documents import b300_box, rtx_box

from dflash_kit import paths
from dflash_kit.engine import caches, kernels, prewarm, serve
from dflash_kit.errors import InputError
from dflash_kit.host.facts import Host
from dflash_kit.profiles.load import load_profile, profile_names
from dflash_kit.releases import catalogue, engine_data


@pytest.fixture
def baked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One baked kernel, hidden as flashinfer's are, its time far back, and an empty cache."""
    folder = tmp_path / "baked" / ".cache" / "repack_0123"
    folder.mkdir(parents=True)
    (folder / "cuda_0.o").write_text("code")
    os.utime(folder / "cuda_0.o", (1_000_000_000.5, 1_000_000_000.5))
    monkeypatch.setattr(paths, "KERNELS", tmp_path / "baked")
    monkeypatch.setenv("DFLASH_KIT_CACHE", str(tmp_path / "cache"))
    return folder


def test_a_cache_begins_with_what_is_baked(baked: Path) -> None:
    environment = caches.cache_environment("tree", "gpu", "590.1")
    folder = Path(environment["TVM_FFI_CACHE_DIR"])
    assert environment["FLASHINFER_WORKSPACE_BASE"] == str(folder)
    assert folder == kernels.folder_below(folder.parent, "tree")
    copy = folder / ".cache" / "repack_0123" / "cuda_0.o"
    assert copy.read_text() == "code"
    # ninja compares times.
    assert copy.stat().st_mtime_ns == (baked / "cuda_0.o").stat().st_mtime_ns


def test_what_a_cache_has_stays_and_a_copy_that_was_cut_off_is_made_again(baked: Path) -> None:
    cache = Path(caches.cache_environment("tree", "gpu", "590.1")["TVM_FFI_CACHE_DIR"])
    kernel = cache / ".cache" / "repack_0123" / "cuda_0.o"
    kernel.write_text("compiled here")
    caches.cache_environment("tree", "gpu", "590.1")
    assert kernel.read_text() == "compiled here"
    shutil.move(cache / ".cache", cache / "..cache")
    caches.cache_environment("tree", "gpu", "590.1")
    assert kernel.read_text() == "code"
    assert not (cache / "..cache").exists()


def test_another_tree_has_another_folder(baked: Path) -> None:
    first, second = (
        caches.cache_environment(tree, "gpu", "590.1")["TVM_FFI_CACHE_DIR"] for tree in "ab"
    )
    assert first != second


@pytest.mark.parametrize("release", catalogue.load(paths.RELEASES_FILE).releases)
def test_every_kernel_is_for_a_pair_of_a_profile(release: str) -> None:
    pairs = {load_profile(name).pair for name in profile_names()}
    for kernel in engine_data.load(release).kernels:
        assert set(kernel.pairs) <= pairs, kernel.module


def test_prewarm_refuses_what_serve_refuses() -> None:
    with pytest.raises(InputError, match="rtx-pro-6000-x8"):
        prewarm.run("rtx-pro-6000-x8")


def test_an_image_that_left_the_card_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    b300, rtx = Host(b300_box()), Host(rtx_box())
    for built in ("", "10.3", "12.0 10.3"):
        monkeypatch.setenv("DFLASH_KIT_CAPABILITIES", built)
        assert serve.choose_profile("b300-x8", b300).name == "b300-x8"
    assert serve.choose_profile("rtx-pro-6000-x8", rtx).name == "rtx-pro-6000-x8"
    monkeypatch.setenv("DFLASH_KIT_CAPABILITIES", "9.0 12.0")
    with pytest.raises(InputError, match=r"image for compute capability 9\.0, 12\.0, wanted one"):
        serve.choose_profile("b300-x8", b300)
    # No card, nothing that could lack.
    serve.refuse_left_out(load_profile("cpu-tiny"))
