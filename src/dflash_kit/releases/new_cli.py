"""`dflash-kit release new`: a release on another upstream version, up to where a person decides."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from dflash_kit import paths
from dflash_kit.errors import CheckFailed, InputError
from dflash_kit.releases import candidate, catalogue, skeleton, upstream
from dflash_kit.releases.candidate import Candidate
from dflash_kit.releases.output import AsJson, print_json, short, wheel_folder


def new(
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Of sglang, or `newest`.")],
    dry_run: Annotated[bool, typer.Option(help="Write nothing but the wheel; only tell.")] = False,
    cutoff: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="The last day whose uploads are locked."),
    ] = None,
    base: Annotated[
        str | None, typer.Option("--from", help="The release to start from.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try the patches of the nearest release on an upstream version, and write what is certain.

    Exit code 1 where a patch is in conflict; images/<release>/port.md says what to decide.
    """
    known = catalogue.load(paths.RELEASES_FILE)
    like = known.releases[known.default]
    found = upstream.find(version, like)
    there = candidate.releases_on(known, found.version)
    if there and version == upstream.NEWEST:
        _say_there(found.version, there, as_json)
        return
    folder = paths.IMAGES / f"{found.version}-dflash.1"
    if folder.exists() and not there and not dry_run:
        raise InputError(f"{short(folder)}: exists and is left as it is; next: its port.md")
    day = cutoff.date() if cutoff else None
    (start,) = known.named(base or candidate.nearest(known, found.version))
    made = candidate.make(known, found, start, day, paths.IMAGES, wheel_folder())
    written = [] if dry_run else skeleton.write(made, paths.IMAGES)
    if as_json:
        print_json(_json(made, written))
    else:
        _print(made, written)
    if made.conflicts:
        raise CheckFailed(
            f"{made.name}: {len(made.conflicts)} of {len(made.patches)} patches in conflict: "
            + ", ".join(patch.name for patch in made.conflicts)
        )


def _say_there(version: str, there: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"sglang": version, "releases": there})
        return
    print(f"sglang {version} is the newest, and {', '.join(there)} is on it: nothing to do")


def _print(made: Candidate, written: list[Path]) -> None:
    print(f"{made.name}: sglang {made.entry.sglang}, from {made.nearest}")
    uploaded = made.uploaded or "at an unknown time"
    print(f"wheel: {made.wheel.name}, uploaded {uploaded}, cut-off {made.entry.cutoff}")
    print("\n".join(skeleton.verdicts(made)))
    for line in [*made.notes, *made.needs, *(f"written: {short(file)}" for file in written)]:
        print(line)
    for number, step in enumerate(skeleton.steps(made) if written else [], 1):
        print(f"next: {number}. {step}")


def _json(made: Candidate, written: list[Path]) -> dict[str, Any]:
    return {
        "release": made.name,
        "sglang": made.entry.sglang,
        "nearest": made.nearest,
        "wheel": made.wheel.name,
        "sha256": made.sha256,
        "uploaded": str(made.uploaded) if made.uploaded else None,
        "cutoff": str(made.entry.cutoff),
        "patches": [asdict(patch) for patch in made.patches],
        "needs": made.needs,
        "notes": [*made.notes, *(n for each in made.requirements.values() for n in each.notes)],
        "written": [short(file) for file in written],
        "next": skeleton.steps(made) if written else [],
    }
