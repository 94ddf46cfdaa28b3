"""What the engine is: the release that was built, checked against the files that will run."""

import json
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.releases import tree

UNRELEASED = "unreleased"
_NAMED_FILES = 5


@dataclass(frozen=True)
class Identity:
    """What the running engine reports of itself, and of the GPUs of its host (`driver`: None
    without one)."""

    release: str
    variant: str
    sglang: str
    patches: list[str]
    tree: str
    profile: str
    point: str
    gpus: list[str] = field(default_factory=list)
    driver: str | None = None

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def sglang_root() -> Path:
    """The folder that holds the `sglang` package; found without importing it."""
    spec = find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("sglang is not installed here: serve runs inside an image of a release")
    return Path(spec.submodule_search_locations[0]).parent


def identify(profile: str, point: str) -> Identity:
    """The identity of the sglang here, after comparing all its files with what the build recorded.

    InputError, naming files, where they differ: it is not the release that it claims to be.
    Outside an image there is no record, and the release is called "unreleased".
    """
    root = sglang_root()
    listing = tree.listing(root)
    found = tree.listing_sha256(listing)
    if not paths.PATCHES_FILE.exists():
        return Identity(UNRELEASED, UNRELEASED, UNRELEASED, [], found, profile, point)
    try:
        built = json.loads(paths.PATCHES_FILE.read_text())
        identity = Identity(
            release=built["release"],
            variant=built["variant"],
            sglang=built["sglang"],
            patches=[patch["name"] for patch in built["patches"]],
            tree=built["tree"],
            profile=profile,
            point=point,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{paths.PATCHES_FILE}: not the record of a build: {error!r}; build the image again"
        ) from None
    if found != identity.tree:
        raise InputError(
            f"{root}: tree: got {found}, wanted {identity.tree} of release {identity.release}"
            f"{_difference(listing)}; use an unchanged image"
        )
    return identity


def _difference(listing: str) -> str:
    """`: changed sglang/a.py, missing sglang/b.py`, as far as the build's listing tells."""
    if not tree_file().exists():
        return f" ({tree_file()} is missing, so no file can be named)"
    found, built = _by_path(listing), _by_path(tree_file().read_text())
    named = [f"added {path}" for path in found.keys() - built.keys()]
    named += [f"missing {path}" for path in built.keys() - found.keys()]
    named += [
        f"changed {path}" for path in found.keys() & built.keys() if found[path] != built[path]
    ]
    more = len(named) - _NAMED_FILES
    shown = ", ".join(sorted(named)[:_NAMED_FILES]) or "no file, so the listing itself was changed"
    return f": {shown}" + (f" and {more} more" if more > 0 else "")


def tree_file() -> Path:
    """The build's listing of the tree, next to its record."""
    return paths.PATCHES_FILE.with_name("tree.sha256")


def _by_path(listing: str) -> dict[str, str]:
    """path -> sha256."""
    pairs = (line.split("  ", 1) for line in listing.splitlines())
    return {path: sha256 for sha256, path in pairs}
