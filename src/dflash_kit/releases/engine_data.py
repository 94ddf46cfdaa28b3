"""images/<release>/engine.yaml: what one release's engine can do and cannot."""

from __future__ import annotations

from functools import cache
from typing import Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from dflash_kit import paths
from dflash_kit.errors import InputError
from dflash_kit.profiles.load import described


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Feature(_Model):
    """Whether the engine can do one thing; what is missing may be so only with DFlash on, or only
    with DFlash on a host without a GPU."""

    supported: bool
    when: Literal["always", "dflash", "dflash-cpu"] = "always"
    why: str = ""

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if not self.supported and not self.why:
            raise ValueError("supported: got false without a why")
        if self.supported and self.when != "always":
            raise ValueError(f"when: got {self.when}, which goes with supported: false")
        return self


class EngineData(_Model):
    """What differs from release to release, as data."""

    features: dict[str, Feature]


@cache
def load(release: str) -> EngineData:
    """The data of `release`; InputError where there are none or they are wrong."""
    file = paths.IMAGES / release / "engine.yaml"
    try:
        return EngineData.model_validate(yaml.safe_load(file.read_text()))
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{file}: is not YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise InputError(f"{file}: {described(error)}") from None
