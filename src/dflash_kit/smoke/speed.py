"""How fast an engine was at one concurrency: rounds of the same requests, and their median."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from pydantic import BaseModel, ConfigDict, Field

# Makes the median absolute deviation of a normal distribution its standard deviation.
NORMAL = 1.4826


class Figures(BaseModel):
    """A record of figures, none of them infinite or not a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Percentiles(Figures):
    """Milliseconds that half, nine in ten and 99 in a hundred requests (or tokens) stayed below."""

    p50: float = Field(ge=0)
    p90: float = Field(ge=0)
    p99: float = Field(ge=0)


class Round(Figures):
    """All prompts once. Only requests that succeeded count, but for `failed`.

    `tpot_ms` is the mean time of an output token after its request's first ones: a request that
    waits for its turn does not change it. `accept_length` is tokens per verify pass and request,
    None without a draft; `queue_ms` the mean wait before a request runs, None where not reported.
    """

    tok_s: float = Field(ge=0)
    tpot_ms: float = Field(ge=0)
    accept_length: float | None = Field(default=None, ge=1)
    ttft_ms: Percentiles
    itl_ms: Percentiles
    e2e_ms: Percentiles
    failed: int = Field(default=0, ge=0)
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    queue_ms: float | None = Field(default=None, ge=0)

    @property
    def step_ms(self) -> float:
        """Milliseconds of one decode step of one request: accept_length * tpot_ms.

        Without a draft a step yields one token.
        """
        return (self.accept_length or 1.0) * self.tpot_ms


class SpeedPoint(Figures):
    """One concurrency: `prompts` requests in each of the rounds, `concurrency` at a time."""

    concurrency: int = Field(ge=1)
    prompts: int = Field(ge=1)
    rounds: list[Round] = Field(min_length=1)

    def __str__(self) -> str:
        drafted = "" if self.accept_length is None else f", acceptance {self.accept_length:.2f}"
        return (
            f"{self.tok_s:.1f} tok/s +-{self.noise:.0%}{drafted}, a step of {self.step_ms:.2f} ms"
        )

    @property
    def tok_s(self) -> float:
        """Output tokens per second over all requests: the median of the rounds."""
        return median(each.tok_s for each in self.rounds)

    @property
    def noise(self) -> float:
        """How far a round's tok/s is from the median, as a share of it; 0 for a single round."""
        return noise([each.tok_s for each in self.rounds])

    @property
    def accept_length(self) -> float | None:
        """Tokens per verify pass and request: the median; None without a draft."""
        return _median_of_known(each.accept_length for each in self.rounds)

    @property
    def step_ms(self) -> float:
        """Milliseconds of one decode step of one request: the median of the rounds."""
        return median(each.step_ms for each in self.rounds)

    @property
    def queue_ms(self) -> float | None:
        """Mean milliseconds before a request runs: the median; None where not reported."""
        return _median_of_known(each.queue_ms for each in self.rounds)

    @property
    def asked(self) -> tuple[int, int, int]:
        """Prompts, and the tokens in and out of a round; without failed requests all are alike."""
        first = self.rounds[0]
        return self.prompts, first.input_tokens, first.output_tokens

    @property
    def failed(self) -> int:
        """Requests that failed, of all rounds."""
        return sum(each.failed for each in self.rounds)


def _median_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def noise(values: Sequence[float]) -> float:
    """The relative spread of a run: 1.4826 times the median distance from the median, as a share of
    that median.

    The median of distances, not their squares: one slow round on a busy host is no noise.
    """
    middle = median(values)
    return NORMAL * median(abs(value / middle - 1) for value in values) if middle else 0.0
