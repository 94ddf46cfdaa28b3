"""What an engine is held to: a release's lock, and a pair's floor and known answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError

from dflash_kit.errors import InputError
from dflash_kit.profiles.models import Pair
from dflash_kit.releases.lockfile import Lock

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True)
class Wanted:
    """What the engine must be; profile and point are None where whatever runs is right.

    `deployment` and `image` are kept in the receipt as they were given: no engine can tell them.
    """

    lock: Lock
    profile: str | None = None
    point: str | None = None
    deployment: str | None = None
    image: str | None = None

    @property
    def release(self) -> str:
        return self.lock.release


class Answer(BaseModel):
    """A user's message and the one greedy answer to it."""

    prompt: str
    answer: str

    @property
    def room(self) -> int:
        """More tokens than the answer can have: each is at least a byte, and one ends it."""
        return len(self.answer.encode()) + 1


class Exact(BaseModel):
    """A prompt that is already in the chat template, and the greedy token ids after it."""

    prompt_text: str
    output_ids: list[int] = Field(min_length=1)


class KnownAnswers(BaseModel):
    """What the pair's target must answer."""

    answers: list[Answer] = Field(min_length=1)
    exact: list[Exact] = Field(min_length=1)

    @property
    def longest(self) -> Answer:
        return max(self.answers, key=lambda answer: len(answer.answer))


def load_known_answers(pair: Pair) -> KnownAnswers:
    """The known answers of a pair.

    Raises:
        InputError: the file is missing or not in this shape.
    """
    return _load(KnownAnswers, pair.known_answers_file)


def _load(model: type[T], file: Path) -> T:
    try:
        return model.model_validate_json(file.read_text())
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{file}: {where}: {first['msg']}") from None
