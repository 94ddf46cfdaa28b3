"""The engine's HTTP endpoints as a smoke test uses them: every request has a deadline."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import requests

from dflash_kit.engine.keys import Keys
from dflash_kit.errors import CheckFailed, Undetermined

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 5.0


@dataclass
class Stream:
    """A streamed chat answer, chunk by chunk as it came."""

    chunks: list[str] = field(default_factory=list)
    finish_reasons: list[str] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    done: bool = False

    @property
    def text(self) -> str:
        return "".join(self.chunks)


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

    def generate(self, text: str, tokens: int) -> dict[str, Any]:
        """Exactly `tokens` greedy tokens after `text`: {"output_ids", "meta_info", ...}."""
        sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
        return self.post("/generate", {"text": text, "sampling_params": sampling})

    def chat(self, prompt: str, tokens: int) -> dict[str, Any]:
        """A greedy chat answer of at most `tokens` tokens, as the OpenAI API returns it."""
        return self.post("/v1/chat/completions", self._chat_body(prompt, tokens))

    def chat_stream(self, prompt: str, tokens: int) -> Stream:
        """The same, streamed; what is missing from the stream is missing from the result."""
        body = self._chat_body(prompt, tokens)
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        path = "/v1/chat/completions"
        response = self.request("POST", path, key=self.keys.user, body=body, stream=True)
        stream = Stream()
        for event in self._events(expect_ok(response, path)):
            if event == "[DONE]":
                stream.done = True
                continue
            chunk = json.loads(event)
            stream.usage = chunk.get("usage") or stream.usage
            for choice in chunk.get("choices", []):
                if content := choice.get("delta", {}).get("content"):
                    stream.chunks.append(content)
                if reason := choice.get("finish_reason"):
                    stream.finish_reasons.append(reason)
        return stream

    def metrics(self) -> dict[str, float]:
        """Samples of /metrics as {"name{labels}": value}."""
        return parse_metrics(self.get("/metrics").text)

    def _chat_body(self, prompt: str, tokens: int) -> dict[str, Any]:
        return {
            "model": "default",
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": tokens,
        }

    def _events(self, response: requests.Response) -> Iterator[str]:
        deadline = time.monotonic() + self.seconds
        try:
            for line in response.iter_lines():
                if time.monotonic() > deadline:
                    raise requests.Timeout("the stream did not end")
                if line.startswith(b"data: "):
                    yield line.removeprefix(b"data: ").decode()
        except requests.ConnectionError as error:
            # requests calls it so when a stream stalls.
            if "timed out" in str(error):
                raise requests.Timeout("the stream stalled") from None
            raise


def expect_ok(response: requests.Response, path: str) -> requests.Response:
    """The response if its status is 200; otherwise CheckFailed with the answer's first words."""
    if response.status_code != 200:
        raise CheckFailed(f"{path} answered {response.status_code}: {response.text[:120]!r}")
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
