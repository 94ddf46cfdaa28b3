"""The releases of this repository: their files agree, and the real wheel gives the locked tree."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from dflash_kit import paths
from dflash_kit.releases import catalogue, engine_data, lockfile, locking, series, wheels

KNOWN = catalogue.load(paths.RELEASES_FILE)
# Where an import of what is not shipped does no harm: conditions that are false in an engine that
# serves (the last two ask for SGLANG_TEST_SCRIPTED_RUNTIME), and functions that nothing calls.
NEVER_TRUE = {"TYPE_CHECKING", "enable_scripted_runtime", "envs.SGLANG_TEST_SCRIPTED_RUNTIME.get()"}
NEVER_CALLED = {"demo_test"}
COMPILED = [
    pytest.param(paths.IMAGES / name / f"requirements-{variant}.txt", id=f"{name}-{variant}")
    for name in KNOWN.releases
    for variant in lockfile.VARIANTS
]


@pytest.mark.parametrize("name", KNOWN.releases)
def test_lock_agrees_with_the_files(name: str) -> None:
    assert locking.check(name, KNOWN.releases[name], paths.IMAGES / name) == []


def test_generated_files_are_current() -> None:
    assert locking.check_generated(KNOWN, paths.ROOT, paths.IMAGES) == []


@dataclass(frozen=True)
class Built:
    """A release, its tree, and what is wrong with that."""

    name: str
    release: catalogue.Release
    tree: Path
    problems: list[str]


def imports(node: ast.AST) -> Iterator[str]:
    """The modules that the code below `node` can come to import while it serves."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.FunctionDef) and node.name in NEVER_CALLED:
        return
    elif isinstance(node, ast.If) and ast.unparse(node.test) in NEVER_TRUE:
        for other in node.orelse:
            yield from imports(other)
    else:
        for child in ast.iter_child_nodes(node):
            yield from imports(child)


def test_imports_that_serving_never_reaches_are_not_counted() -> None:
    text = """
if TYPE_CHECKING:
    import a
else:
    import b
if enable_scripted_runtime or TYPE_CHECKING:
    from c import d
def demo_test():
    import e
def serve():
    from f.g import h
    from . import i
"""
    assert list(imports(ast.parse(text))) == ["b", "c.d", "f.g.h"]


@pytest.fixture(scope="module", params=KNOWN.releases)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Each release with the tree that its wheel and its patches make."""
    name = str(request.param)
    release = KNOWN.releases[name]
    wheel = wheels.upstream_wheel(release, paths.ROOT / "build" / "wheels")
    tree = tmp_path_factory.mktemp("tree") / name
    problems = locking.verify(name, release, paths.IMAGES / name, wheel, tree)
    return Built(name, release, tree, problems)


def test_the_upstream_wheel_gives_the_locked_tree(built: Built) -> None:
    assert built.problems == []


def test_nothing_that_serves_imports_what_is_dropped(built: Built) -> None:
    drop = built.release.drop
    dropped = tuple(path.removesuffix(".py").replace("/", ".") + "." for path in drop)
    spoken_of = re.compile("|".join(re.escape(module[:-1]) for module in dropped))
    needed = {
        f"{file.relative_to(built.tree)}: {found}"
        for file in (built.tree / "sglang/srt").rglob("*.py")
        if spoken_of.search(text := file.read_text())
        for found in imports(ast.parse(text))
        if f"{found}.".startswith(dropped)
    }
    assert needed == set()


def test_the_kernels_to_compile_are_there_and_take_what_they_are_given(built: Built) -> None:
    data = engine_data.load(built.name)
    assert {each.module.partition(".")[0] for each in data.kernels if each.recipe} <= {"flashinfer"}
    # Of flashinfer there is no source here: the build of the cuda image calls it.
    for kernel in (each for each in data.kernels if not each.recipe):
        functions = defined(built.tree, kernel.module)
        given = len(kernel.dtypes) + len(kernel.flags)
        assert functions.get(kernel.function) == given, f"{kernel.module}.{kernel.function}"
    if data.kernel_tools:
        package = built.tree / data.kernel_tools.replace(".", "/")
        files = package.rglob("*.py") if package.is_dir() else [package.with_suffix(".py")]
        assert any("def override_jit_cuda_arch(" in file.read_text() for file in files)


def defined(tree: Path, module: str) -> dict[str, int]:
    """How many parameters each function of a module has."""
    text = (tree / module.replace(".", "/")).with_suffix(".py").read_text()
    found = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    return {node.name: len(node.args.args) for node in found}


@pytest.mark.parametrize("file", COMPILED)
def test_every_requirement_is_locked_by_hash_and_no_place_is_named(file: Path) -> None:
    text = file.read_text()
    entries = re.split(r"\n(?=[a-z])", text.split("\n", 1)[1])
    assert len(entries) > 50
    assert [entry for entry in entries if not re.search(r"==\S+ \\\n +--hash=sha256:", entry)] == []
    assert re.findall(r"^sglang==.*|^-.*|.*://.*|.*@ .*", text, re.MULTILINE) == []


@pytest.mark.parametrize("name", KNOWN.releases)
def test_cpu_torch_is_the_cpu_build_and_triton_is_not_there(name: str) -> None:
    text = (paths.IMAGES / name / "requirements-cpu.txt").read_text()
    (torch,) = re.findall(r"^torch==(\S+)", text, re.MULTILINE)
    assert torch.endswith("+cpu")
    assert not re.search(r"^(triton|nvidia-\S+)==", text, re.MULTILINE)


FATES = [name for name in KNOWN.releases if (paths.IMAGES / name / "fate.yaml").exists()]


@pytest.mark.parametrize("name", FATES)
def test_each_patch_of_an_older_release_has_a_fate(name: str) -> None:
    fate = yaml.safe_load((paths.IMAGES / name / "fate.yaml").read_text())
    older = {Path(patch).stem for patch in series.names(paths.IMAGES / fate["of"])}
    assert fate["patches"].keys() == older
    kinds = {row["fate"] for row in fate["patches"].values()}
    assert kinds <= {"ported", "upstream", "not-applicable", "left-out"}
    ported = {patch for patch, row in fate["patches"].items() if row["fate"] == "ported"}
    here = {Path(patch).stem for patch in series.names(paths.IMAGES / name)}
    assert here == ported | fate["new"].keys()


def test_the_locks_are_json_as_written(tmp_path: Path) -> None:
    for name in KNOWN.releases:
        text = (paths.IMAGES / name / lockfile.NAME).read_text()
        assert lockfile.read(paths.IMAGES / name).as_json() == text
        assert json.loads(text)["release"] == name
