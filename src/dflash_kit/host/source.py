"""Where a preflight's facts come from: this host, a document of collect.py, or captured outputs."""

import json
from pathlib import Path
from typing import Any

from dflash_kit.errors import InputError
from dflash_kit.host import collect

# Below this folder of captured outputs lie the host's own files: files/proc/cmdline.
_FILES = "files"


def read(source: Path) -> dict[str, Any]:
    """The document in the file `source`, or one made of a folder of captured outputs.

    In a folder, `NAME.anything` holds what the command NAME of collect.py printed, and files/PATH
    the host's file /PATH.

    Raises:
        InputError: it is neither, or two files hold the output of one command.
    """
    try:
        document = _folder(source) if source.is_dir() else json.loads(source.read_text())
    except OSError as error:
        raise InputError(f"--from {source}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"--from {source}: is not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != collect.SCHEMA:
        raise InputError(
            f"--from {source}: schema: wanted {collect.SCHEMA}, as collect.py of this kit writes it"
        )
    return document


def _folder(folder: Path) -> dict[str, Any]:
    captured: dict[str, Path] = {}
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        name = file.name.split(".")[0]
        if name in captured:
            raise InputError(
                f"--from {folder}: {name}: got {captured[name].name} and {file.name}, wanted one"
            )
        captured[name] = file
    known = {*collect.COMMANDS, *("registry", "disk-images", "disk-weights", "size-weights")}
    if not known & captured.keys():
        raise InputError(
            f"--from {folder}: no captured output: wanted files named after the commands of "
            "collect.py, such as gpus.csv and topo-m.txt"
        )
    root = folder / _FILES
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {
        "schema": collect.SCHEMA,
        "commands": {
            name: {"rc": 0, "stdout": file.read_text(errors="replace")}
            for name, file in captured.items()
        },
        "files": {
            f"/{path.relative_to(root)}": {"text": path.read_text(errors="replace")}
            for path in files
        },
    }
