"""What a wheel says it needs, and a release's requirements with the pins of another wheel."""

from __future__ import annotations

import email
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from dflash_kit.errors import CheckFailed

_WORDS = re.compile(r"^([A-Za-z0-9][\w.-]*)\s*(\[[^]]*\])?\s*([^;#]*?)\s*(;.*)?$")
_EXTRA = re.compile(r"\bextra\s*==")


@dataclass(frozen=True)
class Adjusted:
    """A requirements-*.in for another wheel, and what a person has to look at."""

    text: str
    notes: tuple[str, ...]


def of_wheel(wheel: Path) -> dict[str, str]:
    """Name -> what the wheel asks of its version, extras left out; CheckFailed where it is none."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            metadata = email.message_from_bytes(archive.read(name))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise CheckFailed(f"{wheel}: is no wheel: {error}; next: delete it") from None
    found: dict[str, str] = {}
    for line in metadata.get_all("Requires-Dist", []):
        parsed = _WORDS.match(line)
        if parsed and not _EXTRA.search(parsed[4] or ""):
            found[_normal(parsed[1])] = _bare(parsed[3])
    return found


def adjusted(source: Path, old: dict[str, str], new: dict[str, str]) -> Adjusted:
    """The requirements of `source`, made for the wheel that declares `old`, for that of `new`.

    A version that came from the old wheel becomes the new one's; any other stays, and is noted.
    """
    lines, notes = [], []
    for line in source.read_text().splitlines():
        parsed = _WORDS.match(line)
        if not parsed or not parsed[3]:
            lines.append(line)
            continue
        name, is_from_wheel = _normal(parsed[1]), _bare(parsed[3]) == old.get(_normal(parsed[1]))
        if is_from_wheel and new.get(name):
            lines.append(line.replace(parsed[3], new[name]))
            continue
        lines.append(line)
        why = "no longer declared by sglang" if is_from_wheel else "chosen here, not by sglang"
        notes.append(f"{source.name}: {line}: {why}; kept")
    return Adjusted("\n".join(lines) + "\n", tuple(notes))


def differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """What sglang needs now and did not before, no longer needs, and needs in another version."""
    return [
        *(f"needs now: {name}{new[name]}" for name in sorted(new.keys() - old.keys())),
        *(f"no longer needs: {name}" for name in sorted(old.keys() - new.keys())),
        *(
            f"needs another version: {name}: {old[name] or 'any'}, now {new[name] or 'any'}"
            for name in sorted(old.keys() & new.keys())
            if old[name] != new[name]
        ),
    ]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _bare(version: str) -> str:
    return version.strip("() ").replace(" ", "")
