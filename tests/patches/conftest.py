"""One process against the sglang tree on PYTHONPATH, on a CPU, without a network."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest


def _stand_in_for_triton() -> None:
    """Let a tree without the optional-triton patch import where triton is missing.

    Otherwise every test of such a tree would fail for the same reason, its own unseen.
    """
    if importlib.util.find_spec("triton"):
        return
    # As the patch does: PyTorch must have looked for triton before the stub is there.
    importlib.import_module("torch._inductor.runtime.triton_compat")
    importlib.import_module("torch.utils._triton").has_triton_package()
    sglang = importlib.util.find_spec("sglang")
    assert sglang is not None and sglang.origin is not None, "sglang is not on PYTHONPATH"
    for name, install in (("_triton_stub", _install), ("_platform_stubs", _install_apples)):
        if (file := Path(sglang.origin).with_name(f"{name}.py")).exists():
            stub = importlib.util.spec_from_file_location(name, file)
            assert stub is not None and stub.loader is not None
            module = sys.modules[name] = importlib.util.module_from_spec(stub)
            stub.loader.exec_module(module)
            install(module)


def _install(stub: Any) -> None:
    stub.install()


def _install_apples(stub: Any) -> None:
    """The stub's part for triton, which without the patch is for macOS alone."""
    import torch

    apple = SimpleNamespace(platform="darwin", modules=sys.modules, meta_path=sys.meta_path)
    here: Any = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stub, "sys", apple)
        patch.setattr(stub, "platform", SimpleNamespace(machine=lambda: "arm64"))
        patch.setattr(torch, "backends", here)
        patch.setattr(torch, "mps", SimpleNamespace())
        patch.setattr(stub, "_patch_non_blocking", lambda: None)
        stub.install_platform_stubs()


def _stand_in_for_sgl_kernel() -> bool:
    """Whether the tree needed a stand-in: for the same reason, without cpu-torch-native."""
    try:
        importlib.import_module("sglang.srt.mem_cache.memory_pool_host")
    except ModuleNotFoundError as error:
        if error.name != "sgl_kernel":
            raise
        sys.modules["sgl_kernel"] = sys.modules["sgl_kernel.kvcacheio"] = MagicMock()
        return True
    return False


_stand_in_for_triton()
_NEEDED_SGL_KERNEL = _stand_in_for_sgl_kernel()
inside: Any = importlib.import_module("inside").inside


@pytest.fixture(scope="session")
def needs_sgl_kernel() -> bool:
    return _NEEDED_SGL_KERNEL


@pytest.fixture(scope="session")
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The arguments and the parallel groups of a single rank, as the engine makes them."""
    from sglang.srt.distributed import parallel_state
    from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

    set_global_server_args_for_scheduler(ServerArgs(model_path="dummy"))

    store = tmp_path_factory.mktemp("rank") / "store"
    parallel_state.init_distributed_environment(
        world_size=1,
        rank=0,
        local_rank=0,
        backend="gloo",
        distributed_init_method=f"file://{store}",
    )
    parallel_state.initialize_model_parallel(backend="gloo")
    yield
    parallel_state.destroy_model_parallel()
    parallel_state.destroy_distributed_environment()


@pytest.fixture
def draft_batch(one_rank: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """build(requests=, block_size=) -> the ForwardBatch of one real draft pass."""

    def build(requests: int = 2, block_size: int = 8) -> Any:
        return inside.draft_batch(monkeypatch, requests, block_size)

    return build


@pytest.fixture
def draft_pass(one_rank: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """run(forward, requests=, block_size=) -> worker v1 after one real draft pass."""
    run: Callable[..., Any] = inside.draft_pass(monkeypatch)
    return run


@pytest.fixture
def graph_buffers() -> Callable[..., Any]:
    """make(max_bs=, block_size=) -> the real input buffers of worker v1's graph runner."""
    make: Callable[..., Any] = inside.graph_buffers()
    return make


@pytest.fixture
def first_steps() -> Callable[..., Any]:
    """run(verify_in_graph=) -> worker v1, batch and turns after one real decode step."""
    run: Callable[..., Any] = inside.first_steps()
    return run
