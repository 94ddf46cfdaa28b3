"""`dflash-kit weights`: what a model's folder must hold, and whether it does."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dflash_kit.errors import CheckFailed, InputError, Undetermined
from dflash_kit.profiles.load import load_pair
from dflash_kit.profiles.models import Pair
from dflash_kit.weights import hub, staged, verify
from dflash_kit.weights.manifest import manifest_file
from dflash_kit.weights.verify import Outcome

app = typer.Typer(no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Full = Annotated[bool, typer.Option("--full", help="Read everything again, changed or not.")]


@app.command()
def manifest(
    folder: Path,
    out: Annotated[
        Path | None, typer.Option(help="File to write; default: where verify looks.")
    ] = None,
    repository: Annotated[str | None, typer.Option(help="Where the model is from.")] = None,
    revision: Annotated[str | None, typer.Option(help="The commit there.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write down size and sha256 of every file in FOLDER, which holds one model."""
    made = verify.make_manifest(folder, repository, revision)
    file = out or manifest_file(folder)
    made.write(file)
    if as_json:
        _print_json({"manifest": str(file), "files": len(made.files), "bytes": made.bytes})
        return
    print(f"{file}: {len(made.files)} files, {made.bytes} bytes")


@app.command("verify")
def verify_folder(
    folder: Path,
    pair: Annotated[
        str | None, typer.Option(help="FOLDER holds both models of this pair, each in its own.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--manifest", help="Another manifest than the one in FOLDER.")
    ] = None,
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """Does FOLDER hold what its manifest says, and nothing else?

    What is unchanged since it was last read is not read again.
    """
    if pair and file:
        raise InputError("--manifest: goes not with --pair: each model has its own manifest")
    if pair:
        known = load_pair(pair)
        if not staged.staged(known):
            _say_in_image(known, as_json)
            return
        outcomes = staged.verify_pair(known, folder, full)
    else:
        outcomes = [verify.verify(folder, full, file)[0]]
    _report(outcomes, as_json)


@app.command()
def fetch(
    pair: str,
    into: Annotated[Path, typer.Option(help="Folder of all weights, a host's /srv/models.")],
    as_json: AsJson = False,
) -> None:
    """Fetch the models of PAIR from the hub, and verify them; run it again to resume.

    A token is read from HF_TOKEN, or from the file that HF_TOKEN_PATH names.
    """
    known = load_pair(pair)
    models = staged.staged(known)
    if not models:
        _say_in_image(known, as_json)
        return
    staged.refuse_unpinned(known)
    for each in models:
        came = hub.fetch(each, into)
        if not as_json:
            print(f"{into / each.folder}: {'fetched' if came else 'was there already'}")
    _report(staged.verify_pair(known, into, full=False), as_json)


def _report(outcomes: list[Outcome], as_json: bool) -> None:
    """Print every outcome; CheckFailed or Undetermined with all that is wrong, one a line."""
    if as_json:
        _print_json([asdict(outcome) for outcome in outcomes])
    else:
        for each in outcomes:
            if not each.wrong and not each.unclear:
                print(
                    f"{each.folder}: as its manifest says: {each.files} files, {each.bytes} bytes, "
                    f"of which {each.read} were read now"
                )
    lines = [line for each in outcomes for line in (*each.wrong, *each.unclear)]
    if any(each.wrong for each in outcomes):
        raise CheckFailed("\n".join(lines))
    if lines:
        raise Undetermined("\n".join(lines))


def _say_in_image(pair: Pair, as_json: bool) -> None:
    if as_json:
        _print_json([])
        return
    print(f"pair {pair.name}: the image carries both models: there is nothing to stage")


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))
