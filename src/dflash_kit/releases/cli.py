"""`dflash-kit release`: what a release is made of, and whether that is still true."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dflash_kit import paths
from dflash_kit.errors import CheckFailed, InputError
from dflash_kit.releases import catalogue, lockfile, locking, wheels
from dflash_kit.releases.new_cli import new
from dflash_kit.releases.output import AsJson, print_json, short, wheel_folder
from dflash_kit.releases.series import ReleaseError

app = typer.Typer(no_args_is_help=True)
app.command()(new)

Name = Annotated[str | None, typer.Argument(metavar="RELEASE", show_default=False)]


@app.command("list")
def list_releases(as_json: AsJson = False) -> None:
    """All releases, one a line; the default one and those withdrawn are marked."""
    known = catalogue.load(paths.RELEASES_FILE)
    rows = [_row(name, known) for name in known.releases]
    if as_json:
        print_json(rows)
        return
    table = Table("release", "sglang", "patches", "tree", "", box=None)
    for row in rows:
        patches, tree = str(row["patches"]), str(row["tree"])[:12]
        withdrawn = row["withdrawn"]
        mark = f"withdrawn {withdrawn['since']}: {withdrawn['why']}" if withdrawn else ""
        table.add_row(
            row["release"], row["sglang"], patches, tree, mark or "default" * row["default"]
        )
    Console().print(table)


@app.command()
def allowed(release: Annotated[str, typer.Argument(metavar="RELEASE")]) -> None:
    """Whether RELEASE may be built and deployed; exit code 2 and why, where it is withdrawn."""
    known = catalogue.load(paths.RELEASES_FILE)
    known.named(release)
    known.refuse_withdrawn(release)


@app.command()
def show(release: Name = None, as_json: AsJson = False) -> None:
    """Everything that RELEASE is made of, the default one where none is named."""
    known = catalogue.load(paths.RELEASES_FILE)
    name = release or known.default
    entry = known.named(name)[name].model_dump(mode="json")
    lock = asdict(_lock(name))
    if as_json:
        print_json(entry | lock)
        return
    if line := known.withdrawn(name):
        print(line)
    for key in ("release", "sglang", "base", "python", "uv", "cutoff", "tree"):
        print(f"{key}: {(entry | lock)[key]}")
    print(f"wheel: {lock['wheel']['file']} sha256 {lock['wheel']['sha256']}")
    for path in lock["drop"]:
        print(f"not shipped: {path}")
    for patch in lock["patches"]:
        print(f"patch: {patch['name']}: {patch['subject']}")


@app.command()
def lock(
    release: Name = None,
    check: Annotated[bool, typer.Option(help="Write nothing; fail if anything is stale.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring locks and generated files up to date, of every release where none is named."""
    known = catalogue.load(paths.RELEASES_FILE)
    chosen = known.named(release)
    if check:
        found = {n: locking.check(n, entry, paths.IMAGES / n) for n, entry in chosen.items()}
        found["generated files"] = locking.check_generated(known, paths.ROOT, paths.IMAGES)
        _report(found, "up to date", as_json)
        return
    changed: list[Path] = []
    try:
        for name, entry in chosen.items():
            wheel = wheels.upstream_wheel(entry, wheel_folder())
            changed += locking.write(name, entry, paths.IMAGES / name, wheel)
        changed += locking.write_generated(known, paths.ROOT, paths.IMAGES)
    except ReleaseError as error:
        raise CheckFailed(short(str(error))) from None
    names = [short(file) for file in changed]
    if as_json:
        print_json({"written": names})
        return
    print("\n".join(f"written: {name}" for name in names) or "everything is up to date")


@app.command()
def verify(
    release: Name = None,
    wheel: Annotated[Path | None, typer.Option(help="The upstream wheel, if at hand.")] = None,
    keep: Annotated[Path | None, typer.Option(help="A new folder to leave the tree in.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All releases, as where none is named.")] = (
        False
    ),
    as_json: AsJson = False,
) -> None:
    """Make the source tree from the upstream wheel and compare it with the lock, patch by patch.

    All releases are verified where none is named.
    """
    known = catalogue.load(paths.RELEASES_FILE)
    if every and release:
        raise InputError(f"--all: got {release} beside it, wanted one of them")
    chosen = known.named(release)
    if (wheel or keep) and len(chosen) > 1:
        raise InputError("--wheel and --keep are for one release; next: name it")
    if wheel and not wheel.is_file():
        raise InputError(f"--wheel: {short(wheel)} is no file, wanted the upstream wheel")
    if keep:
        _make_new_folder(keep)
    found = {}
    for name, entry in chosen.items():
        upstream = wheel or wheels.upstream_wheel(entry, wheel_folder())
        found[name] = locking.verify(name, entry, paths.IMAGES / name, upstream, keep)
    _report(found, "wheel, patches, requirements and tree are as locked", as_json)


def _make_new_folder(keep: Path) -> None:
    """Make the folder now: that it cannot be is better known before the work than after it."""
    try:
        keep.mkdir(parents=True, exist_ok=True)
        taken = any(keep.iterdir())
    except FileExistsError:
        taken = True
    except OSError as error:
        raise InputError(
            f"--keep: {short(keep)}: {error.strerror}, wanted a new or an empty folder"
        ) from None
    if taken:
        raise InputError(f"--keep: {short(keep)} exists, wanted a new or an empty folder")


def _report(found: dict[str, list[str]], good: str, as_json: bool) -> None:
    """Print the outcome by release; CheckFailed with every problem, one a line."""
    shown = {name: [short(line) for line in lines] for name, lines in found.items()}
    if as_json:
        print_json([{"name": name, "problems": lines} for name, lines in shown.items()])
    else:
        for name in (name for name, lines in shown.items() if not lines):
            print(f"{name}: {good}")
    if problems := [line for lines in shown.values() for line in lines]:
        raise CheckFailed("\n".join(problems))


def _row(name: str, known: catalogue.Catalogue) -> dict[str, Any]:
    # An image holds the catalogue and its own release alone.
    try:
        lock = lockfile.read(paths.IMAGES / name)
        locked: dict[str, Any] = {"patches": len(lock.patches), "tree": lock.tree}
    except ReleaseError:
        locked = {"patches": None, "tree": None}
    entry = known.releases[name].model_dump(mode="json")
    return {
        "release": name,
        "sglang": entry["sglang"],
        **locked,
        "default": name == known.default,
        "withdrawn": entry["withdrawn"],
    }


def _lock(name: str) -> lockfile.Lock:
    try:
        return lockfile.read(paths.IMAGES / name)
    except ReleaseError as error:
        raise CheckFailed(short(str(error))) from None
