"""The engine's HTTP endpoints as a smoke test uses them: every request has a deadline."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import requests

from dflash_kit.engine.keys import Keys
from dflash_kit.errors import CheckFailed, Undetermined
from dflash_kit.smoke.stream import Stream

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 5.0
REQUESTS, TOKENS = ("num_running_reqs", "num_waiting_reqs"), ("num_used_tokens",)
CHAT = "/v1/chat/completions"


class Refused(CheckFailed):
    """The engine answered 4xx: it does not take the request."""


@dataclass(frozen=True)
class Load:
    """Requests that run or wait, and tokens whose memory they hold (the prefix cache's do not
    count)."""

    requests: int
    tokens: int

    def within(self, other: Load) -> bool:
        return self.requests <= other.requests and self.tokens <= other.tokens

    def __str__(self) -> str:
        return f"{self.requests} requests with {self.tokens} tokens"


@dataclass(frozen=True)
class Engine:
    """One engine at `url`; `key_source` says where its keys came from, `seconds` is the deadline of
    each request."""

    url: str
    keys: Keys
    key_source: str
    seconds: float = REQUEST_SECONDS

    def request(
        self,
        method: str,
        path: str,
        *,
        key: str | None = None,
        body: Any = None,
        raw: bytes | None = None,
        stream: bool = False,
    ) -> requests.Response:
        """One request with bearer `key` (None: no key); `body` is sent as JSON, `raw` as it is.

        Raises:
            requests.RequestException: no answer in time, or none at all.
        """
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        # A session of its own: no reused connection that a dying engine has half closed.
        with requests.Session() as session:
            # Neither a proxy nor a .netrc of the environment may come between us and the engine.
            session.trust_env = False
            return session.request(
                method,
                self.url + path,
                headers=headers,
                data=raw if body is None else json.dumps(body),
                timeout=(CONNECT_SECONDS, self.seconds),
                stream=stream,
            )

    def get(self, path: str) -> requests.Response:
        """GET with the user key; any status but 200 raises CheckFailed."""
        return expect_ok(self.request("GET", path, key=self.keys.user), path)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST with the user key; the answer's JSON. Any status but 200 raises CheckFailed."""
        response = self.request("POST", path, key=self.keys.user, body=body)
        answer: dict[str, Any] = expect_ok(response, path).json()
        return answer

    def server_info(self) -> dict[str, Any]:
        info: dict[str, Any] = self.get("/server_info").json()
        return info

    def context_tokens(self) -> int:
        """How many tokens a prompt and its answer may have together."""
        return int(self.get("/v1/models").json()["data"][0]["max_model_len"])

    def generate(self, text: str, tokens: int, **sampling: Any) -> dict[str, Any]:
        """Exactly `tokens` greedy tokens after `text`: {"output_ids", "meta_info", ...}."""
        return self.post("/generate", generate_body(text, tokens, **sampling))

    def chat(self, prompt: str, tokens: int, **options: Any) -> dict[str, Any]:
        """A greedy chat answer of at most `tokens` tokens, as the OpenAI API returns it."""
        return self.post(CHAT, chat_body(prompt, tokens, **options))

    def chat_stream(self, prompt: str, tokens: int, **options: Any) -> Stream:
        """The same, streamed; what is missing from the stream is missing from the result."""
        usage = {"include_usage": True}
        body = chat_body(prompt, tokens, stream=True, stream_options=usage, **options)
        stream = Stream()
        for event in self.events(self.opened(CHAT, body)):
            if event == "[DONE]":
                stream.done = True
            else:
                stream.add(json.loads(event))
        return stream

    def opened(self, path: str, body: dict[str, Any]) -> requests.Response:
        """A streamed answer of which nothing is read yet; the caller reads or closes it."""
        response = self.request("POST", path, key=self.keys.user, body=body, stream=True)
        return expect_ok(response, path)

    def load(self) -> Load:
        """What the engine works on right now, over all its schedulers."""
        loads = self.get("/v1/loads?include=core").json()["loads"]
        counted = (sum(load[x] for load in loads for x in names) for names in (REQUESTS, TOKENS))
        return Load(*counted)

    def metrics(self) -> dict[str, float]:
        """Samples of /metrics as {"name{labels}": value}."""
        return parse_metrics(self.get("/metrics").text)

    def events(self, response: requests.Response) -> Iterator[str]:
        """The data of each event, until the stream ends or the deadline has passed."""
        deadline, seen = time.monotonic() + self.seconds, 0
        try:
            for line in response.iter_lines():
                if time.monotonic() > deadline:
                    raise requests.Timeout("the stream did not end")
                if line.startswith(b"data: "):
                    seen += 1
                    yield line.removeprefix(b"data: ").decode()
        except requests.ConnectionError as error:
            # requests calls it so when a stream stalls.
            if "timed out" not in str(error):
                raise
            if seen:  # it had an answer, and lost it
                problem = f"a stream stood still for {self.seconds:.0f} s after {seen} events"
                raise CheckFailed(problem) from None
            raise requests.Timeout("the stream stalled") from None


def chat_body(prompt: str, tokens: int, **options: Any) -> dict[str, Any]:
    """A greedy chat request with one message; `options` win."""
    return {
        "model": "default",
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": tokens,
    } | options


def generate_body(text: str, tokens: int, **sampling: Any) -> dict[str, Any]:
    """A greedy request for exactly `tokens` tokens after `text`; `sampling` wins."""
    greedy = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    return {"text": text, "sampling_params": greedy | sampling}


def expect_ok(response: requests.Response, path: str) -> requests.Response:
    """The response if its status is 200.

    Raises:
        Refused, CheckFailed: 4xx, or anything else, with the answer's first words.
    """
    status = response.status_code
    if status != 200:
        kind = Refused if 400 <= status < 500 else CheckFailed
        raise kind(f"{path} answered {status}: {response.text[:120]!r}")
    return response


def parse_metrics(text: str) -> dict[str, float]:
    """Prometheus text format -> {"name{labels}": value}; comments are left out."""
    samples = re.findall(r"^([^#\s{]+(?:\{.*\})?)\s+(\S+)", text, re.MULTILINE)
    return {name: float(value) for name, value in samples}


def total(samples: dict[str, float], name: str) -> float:
    """The sum over all labels of one metric; 0.0 if it is absent."""
    return sum(value for key, value in samples.items() if key.split("{", 1)[0] == name)


def expect_reachable(url: str) -> None:
    """Nothing if something speaks HTTP at `url`; a slow or refusing engine is the checks' concern.

    Raises:
        Undetermined: nobody is there.
    """
    try:
        Engine(url, Keys("", ""), "").request("GET", "/health")
    except requests.ReadTimeout:
        return
    except requests.RequestException as error:
        raise Undetermined(
            f"no engine answers at {url} ({type(error).__name__}); start it (make up), wait until "
            "it is healthy, or give --url"
        ) from error
