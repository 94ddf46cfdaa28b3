"""sglang's bench_serving as a process beside the engine: where it runs, and what it says."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from statistics import quantiles
from threading import Timer
from typing import IO

from pydantic import BaseModel, ValidationError, model_validator

from dflash_kit import paths
from dflash_kit.engine.probe import DEFAULT_PORT
from dflash_kit.errors import Undetermined
from dflash_kit.smoke.credentials import compose_service
from dflash_kit.smoke.speed import Percentiles, Round

ROUND_SECONDS = 900.0
_MODULE = ("-m", "dflash_kit.smoke.bench_child")


@dataclass(frozen=True)
class Asked:
    """One round: the prompts (in the chat template, unless `chat`), and how to ask them."""

    url: str
    key: str = field(repr=False)
    tokenizer: str
    prompts: tuple[str, ...]
    tokens: int
    concurrency: int
    chat: bool = False


class Found(BaseModel):
    """What bench_serving found, request by request; times in seconds.

    `itls` has an entry for each token after a request's first chunk.
    """

    duration: float
    input_lens: list[int]
    output_lens: list[int]
    ttfts: list[float]
    itls: list[list[float]]
    errors: list[str]

    @model_validator(mode="after")
    def _one_entry_a_request(self) -> Found:
        lists = (self.input_lens, self.output_lens, self.ttfts, self.itls, self.errors)
        if len({len(entries) for entries in lists}) != 1:
            raise ValueError("not one entry a request")
        return self

    def good(self, tokens: int) -> list[int]:
        """The requests that got a whole answer: any other is a failed one, never a fast one."""
        return [at for at in range(len(self.errors)) if not self._shortcoming(at, tokens)]

    def _shortcoming(self, at: int, tokens: int) -> str:
        """Why a request has failed, in one line; empty if it has not.

        bench_serving believes that a stream of nothing but an error has the tokens it asked for.
        """
        if error := self.errors[at].strip():
            return error.rsplit("\n", 1)[-1]
        if not self.ttfts[at]:
            return "an answer without a token"
        got = self.output_lens[at]
        return "" if got == tokens else f"{got} tokens instead of {tokens}"

    def first_error(self, tokens: int) -> str:
        """Why the first failed request failed; empty if none did."""
        every = (self._shortcoming(at, tokens) for at in range(len(self.errors)))
        return next(filter(None, every), "")

    def round(
        self, tokens: int, accept_length: float | None = None, queue_ms: float | None = None
    ) -> Round:
        """The figures of the requests that succeeded."""
        good = self.good(tokens)
        itls = [itl for at in good for itl in self.itls[at]]
        output = tokens * len(good)
        return Round(
            tok_s=output / self.duration,
            tpot_ms=1000 * sum(itls) / len(itls) if itls else 0.0,
            accept_length=accept_length,
            ttft_ms=_percentiles([self.ttfts[at] for at in good]),
            itl_ms=_percentiles(itls),
            e2e_ms=_percentiles([self.ttfts[at] + sum(self.itls[at]) for at in good]),
            failed=len(self.output_lens) - len(good),
            input_tokens=sum(self.input_lens[at] for at in good),
            output_tokens=output,
            queue_ms=queue_ms,
        )


def _percentiles(seconds: list[float]) -> Percentiles:
    if not seconds:
        return Percentiles(p50=0, p90=0, p99=0)
    # Twice the only one, since quantiles wants two.
    values = [1000 * x for x in (seconds if len(seconds) > 1 else 2 * seconds)]
    at = quantiles(values, n=100, method="inclusive")
    return Percentiles(p50=at[49], p90=at[89], p99=at[98])


class Serving:
    """The process; it runs one round at a time."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._process = process
        self._errors = errors

    def __call__(self, asked: Asked) -> Found:
        """Run a round.

        Raises:
            Undetermined: bench_serving did not run to its end.
        """
        watch = Timer(ROUND_SECONDS, self._process.kill)
        watch.start()
        try:
            answer = self._ask(json.dumps(asdict(asked)))
        finally:
            watch.cancel()
        try:
            found = json.loads(answer)
            if "error" in found:
                raise Undetermined(f"bench_serving: {found['error']}: {self._last_words()}")
            return Found.model_validate(found)
        except (ValueError, ValidationError):
            raise Undetermined(f"bench_serving ended: {self._last_words()}") from None

    def _ask(self, line: str) -> str:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self._process.stdout.readline()

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = [line for line in self._errors.read().splitlines() if line.strip()]
        return lines[-1][:200] if lines else "without a word"


@contextmanager
def serving(command: list[str]) -> Iterator[Serving]:
    """bench_serving by `command`, until the block ends.

    Raises:
        Undetermined: the command is not there.
    """
    with tempfile.TemporaryFile("w+") as errors:
        try:
            process = subprocess.Popen(
                command,
                cwd=paths.ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        except OSError as error:
            raise Undetermined(f"bench_serving: {command[0]}: {error.strerror}") from None
        try:
            yield Serving(process, errors)
        finally:
            process.kill()
            process.communicate()  # unlike close(), it does not mind what was never read


def command(url: str, key_source: str) -> tuple[list[str], str]:
    """How to run bench_serving, and the engine's URL from there: in this image, else in the
    container that gave the keys, where the engine is a neighbour.

    Raises:
        Undetermined: neither is there.
    """
    if paths.PATCHES_FILE.exists():
        return [sys.executable, *_MODULE], url
    if service := compose_service(key_source):
        inside = f"http://127.0.0.1:{DEFAULT_PORT}"
        return ["docker", "compose", "exec", "-T", service, "python3", *_MODULE], inside
    raise Undetermined(
        "bench_serving is in the engine's image, and no container of this node gave the keys; "
        f"run it there (docs/bench.md): docker compose run --rm smoke bench --url {url}"
    )
