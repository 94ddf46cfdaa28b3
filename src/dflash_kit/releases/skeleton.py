"""The folder of a candidate: what could be made, and port.md, which says what is left to decide."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from dflash_kit.errors import InputError
from dflash_kit.releases import series
from dflash_kit.releases.candidate import Candidate
from dflash_kit.releases.porting import Tried

PORT = "port.md"
# What a person has looked at has another first line, or none.
UNCHECKED = "# Not checked yet: copied from {} by `dflash-kit release new`.\n"
_FATES = {"applies": "ported", "upstream": "upstream", "conflict": "undecided"}


def write(made: Candidate, images: Path) -> list[Path]:
    """Write images/<release>/; InputError where it exists. The files, port.md last."""
    folder, source = images / made.name, images / made.nearest
    if folder.exists():
        raise InputError(f"{folder}: exists and is left as it is; next: remove it to begin again")
    whole = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(whole, ignore_errors=True)
    (whole / series.FOLDER).mkdir(parents=True)
    kept = [patch.name for patch in made.patches if patch.verdict == "applies"]
    for name in kept:
        shutil.copy(source / series.FOLDER / name, whole / series.FOLDER / name)
    texts = {f"{series.FOLDER}/{series.SERIES}": "".join(f"{name}\n" for name in kept)}
    for variant, requirements in made.requirements.items():
        texts[f"requirements-{variant}.in"] = requirements.text
    engine = source / "engine.yaml"
    if engine.is_file():
        texts[engine.name] = UNCHECKED.format(made.nearest) + engine.read_text()
    texts["fate.yaml"] = fates(made)
    texts[PORT] = port(made)
    for name, text in texts.items():
        (whole / name).write_text(text)
    # At once, so that a folder of this name is never half of one.
    whole.rename(folder)
    return [folder / name for name in texts]


def fates(made: Candidate) -> str:
    """fate.yaml: what became of each patch; `undecided` is refused once the release is listed."""
    rows = {
        Path(patch.name).stem: {"fate": _FATES[patch.verdict], "note": _note(patch)}
        for patch in made.patches
    }
    content = {"of": made.nearest, "patches": rows, "new": {}}
    return _as_yaml(content)


def _note(patch: Tried) -> str:
    if patch.verdict == "applies":
        return f"{patch.moved} hunks at other lines" if patch.moved else "unchanged"
    if patch.verdict == "upstream":
        return "the very lines are in sglang; say where"
    return f"{len(patch.hunks)} hunks do not fit, see {PORT}"


def entry(made: Candidate) -> str:
    """The lines of images/releases.yaml."""
    content: dict[str, Any] = made.entry.model_dump(exclude_unset=True)
    text = _as_yaml({made.name: content})
    return "".join(f"  {line}\n" for line in text.splitlines())


class _Indented(yaml.SafeDumper):
    """Lists stand below their key, as in every other file of the kit."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _as_yaml(content: dict[str, Any]) -> str:
    text: str = yaml.dump(content, Dumper=_Indented, sort_keys=False, width=96)
    return text


def verdicts(made: Candidate) -> list[str]:
    """One line a patch, and one for each hunk that does not fit."""
    lines = []
    for patch in made.patches:
        more = f", {patch.moved} hunks at other lines" * bool(patch.moved)
        lines.append(f"{patch.name}: {patch.verdict}{more}")
        lines += [f"  {hunk}" for hunk in patch.hunks]
        lines += [f"  perhaps because of: {', '.join(patch.follows)}"] * bool(patch.follows)
    return lines


def steps(made: Candidate) -> list[str]:
    """What a person does next, in order."""
    name, folder = made.name, f"images/{made.name}"
    of_old = f"images/{made.nearest}/patches"
    decide = [
        f"{len(made.conflicts)} patches in conflict: port each from {of_old}, or leave it out; "
        f"{folder}/fate.yaml says which"
    ] * bool(made.conflicts)
    gone = [patch.name for patch in made.patches if patch.verdict == "upstream"]
    see = [f"see that sglang does what these did, and say where in fate.yaml: {', '.join(gone)}"]
    return [
        *decide,
        *(see * bool(gone)),
        f"check {folder}/engine.yaml against sglang {made.entry.sglang}, and take out its line 1",
        f"check {folder}/requirements-*.in against what port.md notes",
        f"put the entry of {folder}/{PORT} into images/releases.yaml, then remove {folder}/{PORT}",
        f"dflash-kit release lock && scripts/image cpu {name}",
        f"make test, and a smoke test of each profile: dflash-kit smoke --release {name}",
    ]


def port(made: Candidate) -> str:
    """port.md."""
    notes = [*made.notes, *(n for each in made.requirements.values() for n in each.notes)]
    parts = [
        f"# {made.name}, from {made.nearest}\n",
        f"{made.wheel.name}, uploaded {made.uploaded or 'at an unknown time'}, "
        f"sha256 {made.sha256}\n",
        "## Next\n",
        *(f"{number}. {step}" for number, step in enumerate(steps(made), 1)),
        "\n## Patches\n",
        *(f"    {line}" for line in verdicts(made)),
        "\n## Entry of images/releases.yaml\n",
        *(f"    {line}" for line in entry(made).splitlines()),
        "\n## Requirements\n",
        *(f"- {line}" for line in [*notes, *made.needs] or ["as they were"]),
    ]
    return "\n".join(parts) + "\n"
