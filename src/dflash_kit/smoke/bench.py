"""A bench: what is sent, round by round, and what the engine itself says of each round."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from dflash_kit.errors import InputError, Undetermined
from dflash_kit.profiles.models import Pair
from dflash_kit.smoke.bench_serving import Asked, Found
from dflash_kit.smoke.client import Engine, expect_ok, total
from dflash_kit.smoke.receipt import Host, Receipt
from dflash_kit.smoke.speed import Round, SpeedPoint
from dflash_kit.smoke.speed_gate import LEAST_ROUNDS
from dflash_kit.smoke.wanted import load_known_answers

CONCURRENCIES = (1, 8, 32)
# Of an answer to a prompt of a data set; the known ones are as long as they are.
OUTPUT_TOKENS = 256
LEAST_PROMPTS = 24
# How long the last requests of the round before may take to leave the engine.
FLUSH_SECONDS = 10
QUEUE = "sglang:queue_time_seconds"

RunRound = Callable[[Asked], Found]


@dataclass(frozen=True)
class Prompts:
    """What is asked: texts (in the chat template, unless `chat`) and the length of each answer."""

    texts: tuple[str, ...]
    tokens: int
    chat: bool


@dataclass(frozen=True)
class Bench:
    """What a bench needs beside the engine: bench_serving, the engine's URL as that sees it, the
    prompts of a data set (None: the pair's known ones), and an earlier receipt to compare with."""

    run: RunRound
    url: str
    prompts: Prompts | None = None
    before: Receipt | None = None

    def asked(self, engine: Engine, pair: Pair, concurrency: int) -> Asked:
        """One round: three waves of requests, but not fewer than LEAST_PROMPTS.

        The tokenizer lies where the engine has it: bench_serving runs out of the same image.
        """
        info = engine.server_info()
        prompts = self.prompts or known_prompts(pair)
        count = max(LEAST_PROMPTS, 3 * concurrency)
        return Asked(
            url=self.url,
            key=engine.keys.user,
            tokenizer=info.get("tokenizer_path") or info["model_path"],
            prompts=tuple(islice(cycle(prompts.texts), count)),
            tokens=prompts.tokens,
            concurrency=concurrency,
            chat=prompts.chat,
        )

    def earlier(
        self, profile: str | None, point: str | None, concurrency: int
    ) -> SpeedPoint | None:
        """The earlier speed at this concurrency; None where there is none.

        Raises:
            Undetermined: the earlier receipt is of another deployment family.
        """
        if self.before is None:
            return None
        there = self.before.profile, self.before.point, self.before.host.name
        here = profile, point, Host().name
        if there != here:
            raise Undetermined(
                f"the earlier receipt is of {' '.join(map(str, there))}, wanted one of "
                f"{' '.join(map(str, here))} ($DFLASH_KIT_HOST names this host)"
            )
        known = {point.concurrency: point for point in self.before.speed}
        return known.get(concurrency)


def known_prompts(pair: Pair) -> Prompts:
    """The pair's exact prompts, whose answers are known to be drafted well."""
    exact = load_known_answers(pair).exact
    texts = tuple(each.prompt_text for each in exact)
    return Prompts(texts, min(len(each.output_ids) for each in exact), chat=False)


def load_dataset(file: Path) -> Prompts:
    """The first turn of each conversation of a data set: JSON, or JSON lines, as ShareGPT has them.

    Raises:
        InputError: the file cannot be read or has no conversation.
    """
    try:
        text = file.read_text()
        whole = json.loads(text) if text.lstrip().startswith("[") else None
        entries = whole or [json.loads(line) for line in text.splitlines() if line.strip()]
        texts = tuple(islice(_first_turns(entries), 3 * max(CONCURRENCIES)))
    except OSError as error:
        raise InputError(f"--dataset {file}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise InputError(
            f"--dataset {file}: got no conversations ({error}); wanted "
            '{"conversations": [{"value": TEXT}, ...]} in each entry'
        ) from None
    if not texts:
        raise InputError(f"--dataset {file}: got no conversation that begins with a text")
    return Prompts(texts, OUTPUT_TOKENS, chat=True)


def _first_turns(entries: Iterable[dict[str, Any]]) -> Iterable[str]:
    for entry in entries:
        turn = entry["conversations"][0] if entry["conversations"] else {}
        if text := turn.get("value") or turn.get("content"):
            yield str(text)


def measure(run: RunRound, engine: Engine, asked: Asked) -> tuple[SpeedPoint, str]:
    """The speed at one concurrency, and why the first failed request failed; empty if none did.

    A first round is not counted: it pays for kernels that are compiled for its batch sizes.
    """
    one_round(run, engine, asked)
    done = [one_round(run, engine, asked) for _ in range(LEAST_ROUNDS)]
    point = SpeedPoint(
        concurrency=asked.concurrency,
        prompts=len(asked.prompts),
        rounds=[each for each, _ in done],
    )
    return point, next((error for _, error in done if error), "")


def one_round(run: RunRound, engine: Engine, asked: Asked) -> tuple[Round, str]:
    """One round with an empty prefix cache, and why its first failed request failed."""
    flush(engine)
    before = engine.metrics()
    found = run(asked)
    after = engine.metrics()
    waits = total(after, f"{QUEUE}_count") - total(before, f"{QUEUE}_count")
    waited = total(after, f"{QUEUE}_sum") - total(before, f"{QUEUE}_sum")
    queue_ms = max(0.0, 1000 * waited / waits) if waits > 0 else None
    accept = acceptance(engine) if found.good(asked.tokens) else None
    return found.round(asked.tokens, accept, queue_ms), found.first_error(asked.tokens)


def flush(engine: Engine) -> None:
    """Empty the prefix cache, which also sets the engine's count of acceptance to zero.

    Raises:
        Undetermined: somebody else's requests are running.
    """
    path = f"/flush_cache?timeout={FLUSH_SECONDS}"
    response = engine.request("POST", path, key=engine.keys.admin)
    if response.status_code == 400:
        raise Undetermined("the engine answers other requests: a bench needs it for itself")
    expect_ok(response, "/flush_cache")


def acceptance(engine: Engine) -> float | None:
    """Tokens per verify pass and request since the cache was flushed; None without a draft.

    Raises:
        Undetermined: there is a draft, but it is not counted.
    """
    info = engine.server_info()
    if info.get("speculative_algorithm") is None:
        return None
    counted = info["internal_states"][0].get("avg_spec_accept_length")
    if counted is None:
        raise Undetermined("/server_info: avg_spec_accept_length is not there after a round")
    return float(counted)
