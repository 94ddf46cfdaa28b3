"""The models of a pair as they lie, or shall lie, in the folder of the weights of a host."""

from dataclasses import dataclass
from pathlib import Path

from dflash_kit.errors import InputError
from dflash_kit.profiles.models import Model, Pair
from dflash_kit.profiles.pair_check import pair_problems
from dflash_kit.weights.manifest import Manifest, manifest_file, read
from dflash_kit.weights.verify import Outcome, verify

# Where a container finds the folder of the weights, as docker-compose.yml mounts it.
MOUNT = Path("/models")


@dataclass(frozen=True)
class Staged:
    """A model that is not in the image: its `role` in the pair and its folder below the weights."""

    role: str
    folder: Path
    model: Model


def staged(pair: Pair) -> list[Staged]:
    """The models of `pair` that a host must have; none where the image carries them.

    InputError where a model is neither in the image nor where the weights are mounted.
    """
    found = []
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        path = Path(model.path)
        if not path.is_absolute():
            continue
        if not path.is_relative_to(MOUNT) or path == MOUNT:
            raise InputError(
                f"pair {pair.name}: {role}.path: got {path}, wanted a folder below {MOUNT}, or a "
                "relative path for a model in the image"
            )
        found.append(Staged(role, path.relative_to(MOUNT), model))
    return found


def refuse_unpinned(pair: Pair) -> None:
    """InputError with every model of `pair` of which nobody says what to fetch."""
    wrong = [
        f"pair {pair.name}: {each.role}.{name}: got none, wanted the one to fetch; next: pin it in "
        f"images/pairs/{pair.name}.yaml"
        for each in staged(pair)
        for name in ("repository", "revision")
        if getattr(each.model, name) is None
    ]
    if wrong:
        raise InputError("\n".join(wrong))


def refuse_source(pair: Pair, source: Path) -> None:
    """InputError where `source` cannot be copied from: every model with its manifest is there."""
    wrong = []
    for each in staged(pair):
        folder = source / each.folder
        file = manifest_file(folder)
        if file.is_file():
            wrong += _other_origin(folder, each.model, read(file))
        else:
            wrong.append(
                f"{file}: is missing; next: where the weights are known to be good: "
                f"dflash-kit weights manifest {folder}{_origin_options(each.model)}"
            )
    if wrong:
        raise InputError("\n".join(wrong))


def verify_pair(pair: Pair, weights: Path, full: bool) -> list[Outcome]:
    """Compare every model of `pair` below `weights` with its manifest, which must be of the
    revision that the pair names, and the models with each other.
    """
    outcomes = []
    for each in staged(pair):
        folder = weights / each.folder
        if not folder.is_dir():
            outcomes.append(Outcome(str(folder), wrong=[f"{folder}: is missing"]))
            continue
        outcome, manifest = verify(folder, full)
        if manifest:
            outcome.wrong += _other_origin(folder, each.model, manifest)
        outcomes.append(outcome)
    if outcomes and not any(each.wrong or each.unclear for each in outcomes):
        outcomes[0].wrong += [
            f"pair {pair.name}: {line}" for line in pair_problems(_below(pair, weights))
        ]
    return outcomes


def _below(pair: Pair, weights: Path) -> Pair:
    """`pair` with its models below another folder than a container's."""
    moved = {
        each.role: each.model.model_copy(update={"path": str(weights.resolve() / each.folder)})
        for each in staged(pair)
    }
    return pair.model_copy(update=moved)


def _other_origin(folder: Path, model: Model, manifest: Manifest) -> list[str]:
    return [
        f"{folder}: {name}: got {got or 'none in its manifest'}, wanted {wanted}; next: fetch or "
        f"copy that one, or say in the manifest that it is: dflash-kit weights manifest "
        f"{folder}{_origin_options(model)}"
        for name, got, wanted in (
            ("repository", manifest.repository, model.repository),
            ("revision", manifest.revision, model.revision),
        )
        if wanted is not None and got != wanted
    ]


def _origin_options(model: Model) -> str:
    options = (("--repository", model.repository), ("--revision", model.revision))
    return "".join(f" {name} {value}" for name, value in options if value)
