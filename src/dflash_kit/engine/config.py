"""From profile, pair, point and keys to what the engine is started with."""

import os
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from dflash_kit.engine.keys import Keys
from dflash_kit.errors import InputError
from dflash_kit.profiles.arguments import (
    as_in_profiles,
    known_to,
    named_for,
    refuse_incompatible,
)
from dflash_kit.profiles.models import Argument, Pair, Point, Profile
from dflash_kit.releases import current

DEFAULT_POINT = "latency"
REDACTED = Keys(user="<redacted>", admin="<redacted>")
# The engine reads its arguments only from a file whose name ends in .yaml.
CONFIG_NAME = "engine.yaml"


@dataclass(frozen=True)
class Rendered:
    """The engine's arguments (names without --) and the environment variables added for it."""

    arguments: dict[str, Argument] = field(repr=False)  # both keys are among them
    environment: dict[str, str]

    @property
    def port(self) -> int:
        return int(str(self.arguments["port"]))


def render(
    profile: Profile,
    pair: Pair,
    point: str,
    keys: Keys,
    port: int | None = None,
    release: str | None = None,
) -> Rendered:
    """What `profile` with `pair` runs at `point` on `release` (default: this image's, else the
    catalogue's); `port` replaces the profile's.

    InputError where the profile has no such point, `port` is none, or the arguments are known not
    to work together.
    """
    points = {str(name): settings for name, settings in profile.points.items()}
    if point not in points:
        known = ", ".join(points)
        raise InputError(f"unknown point {point!r}: profile {profile.name} has: {known}")
    settings, engine = points[point], current.engine(release)
    arguments: dict[str, Argument] = {
        "model-path": str(pair.target.folder),
        **profile.engine.arguments,
        **settings.arguments,
        **_draft(profile, pair, settings),
    }
    arguments = as_in_profiles(arguments)
    refuse_incompatible(profile, point, settings.dflash, arguments, engine)
    arguments = named_for(arguments, engine)
    if port is not None:
        arguments["port"] = port_number("--port", port)
    arguments |= {"api-key": keys.user, "admin-api-key": keys.admin}
    # What would serve DFlash worse than the profile says ends the start; a profile may differ.
    strict = {"DFLASH_KIT_STRICT": "1"}
    # The engine's own health endpoint must not give up before the kit does: once it has, a stop
    # drops the requests in flight.
    health = {"SGLANG_HEALTH_CHECK_TIMEOUT": str(int(profile.limits.hang_seconds))}
    environment = known_to({**profile.engine.environment, **settings.environment}, engine)
    return Rendered(arguments, {**strict, **environment, **health})


def _draft(profile: Profile, pair: Pair, point: Point) -> dict[str, Argument]:
    """The arguments that name the draft of `point` and its block."""
    block = "speculative-num-draft-tokens"
    if block in {**profile.engine.arguments, **point.arguments}:
        raise InputError(
            f"profile {profile.name}: arguments.{block}: wanted draft_tokens of the point instead, "
            f"and that only for another block than the {pair.match.block_size} of the draft"
        )
    if point.dflash:
        return {
            "speculative-algorithm": "DFLASH",
            "speculative-draft-model-path": str(pair.draft.folder),
            # Left out, the engine guesses, and takes 16 where it cannot.
            block: point.draft_tokens or pair.match.block_size,
        }
    if not point.fallback:
        return {}
    if pair.fallback is None:
        raise InputError(f"profile {profile.name}: fallback: pair {pair.name} has none")
    path = str(pair.fallback.draft.folder)
    return {**pair.fallback.arguments, "speculative-draft-model-path": path}


def port_number(source: str, value: str | int) -> int:
    """`value` as a TCP port; InputError, which names `source`, where it is none."""
    text = str(value)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise InputError(f"{source}: got {text}, wanted a port: 1 to 65535")
    return int(text)


def run_dir() -> Path:
    """The folder for the engine's configuration, $DFLASH_KIT_RUN; made here, of mode 0700.

    InputError where it cannot be made or belongs to somebody else.
    """
    folder = Path(os.environ.get("DFLASH_KIT_RUN") or Path(tempfile.gettempdir(), "dflash-kit"))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise InputError(
            f"run folder: {folder}: cannot be made: {error.strerror} (DFLASH_KIT_RUN names it)"
        ) from None
    # The default lies under /tmp, where anyone could have put a folder or a link first.
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    if not ours or status.st_mode & 0o022:
        raise InputError(
            f"run folder: {folder}: wanted a folder of uid {os.getuid()} that nobody else can "
            "write to (DFLASH_KIT_RUN names it)"
        )
    return folder


def write_private(file: Path, text: str) -> None:
    """Replace `file` by `text` in one step, readable by its owner alone (0600)."""
    try:
        descriptor, scratch = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
        os.replace(scratch, file)
    except OSError as error:
        raise InputError(f"run folder: {file}: cannot be written: {error.strerror}") from None


def write_config(arguments: dict[str, Argument], folder: Path) -> Path:
    """Write the engine's configuration file into `folder` and return its path."""
    file = folder / CONFIG_NAME
    write_private(file, yaml.safe_dump(arguments, sort_keys=False))
    return file
