"""A small HTTP server that speaks the engine's endpoints for the fake engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fake_engine import CONTEXT, KEYS, FakeEngine, Fault, Malformed

TRACE_LEVEL = "/set_trace_level"
ADMINISTRATIVE = ("/flush_cache", "/hicache/storage-backend", TRACE_LEVEL)
EVENTS = "text/event-stream"


class Handler(BaseHTTPRequestHandler):
    """One request; `self.server.engine` is the fake."""

    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        engine = self.server.engine
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if not self._allowed():
                return self._json(401, {"error": "Unauthorized"})
            self._dispatch(body)
        except Malformed as error:
            if engine.has(Fault.MALFORMED_KILLS):
                engine.end()
                return None
            engine.corrupted = engine.has(Fault.MALFORMED_CORRUPTS)
            codes = {Fault.MALFORMED_ACCEPTED: 200, Fault.MALFORMED_CRASHES: 500}
            self._json(codes.get(engine.fault, 400), {"error": str(error)})
        except ConnectionAbortedError:
            self.close_connection = True
        return None

    def _allowed(self) -> bool:
        engine, given = self.server.engine, self.headers.get("Authorization")
        if self.path.startswith(("/health", "/metrics")):
            return True
        opened = engine.has(Fault.ADMIN_NOT_ENFORCED) or (
            engine.has(Fault.TRACE_LEVEL_OPEN) and self.path == TRACE_LEVEL
        )
        if self.path in ADMINISTRATIVE and not opened:
            key = "another" if engine.has(Fault.OTHER_ADMIN_KEY) else KEYS.admin
            return given == f"Bearer {key}"
        accepted = {f"Bearer {KEYS.user}"}
        if self.path in ADMINISTRATIVE:
            accepted.add(f"Bearer {KEYS.admin}")
        return engine.has(Fault.KEY_NOT_ENFORCED) or given in accepted

    def _dispatch(self, body: bytes) -> None:
        engine = self.server.engine
        match self.path:
            case "/health":
                self._json(503 if engine.has(Fault.UNHEALTHY) else 200, {})
            case "/set_trace_level":
                raise Malformed("no level")
            case "/get_server_info" if engine.has(Fault.KEY_LEAKED_IN_ERROR):
                self._json(500, {"error": KEYS.admin})
            case "/server_info" | "/get_server_info":
                self._json(200, engine.server_info())
            case "/model_info" | "/flush_cache" | "/hicache/storage-backend":
                self._json(200, {})
            case "/v1/models":
                models = [{"id": "tiny", "max_model_len": CONTEXT}]
                self._json(200, {"data": [] if engine.has(Fault.NO_MODEL) else models})
            case "/metrics" if not engine.has(Fault.NO_METRICS):
                self._send(200, engine.metrics().encode(), "text/plain")
            case "/generate":
                self._generate(parse(body))
            case "/v1/chat/completions":
                self._chat(parse(body))
            case "/v1/completions":
                require(parse(body), "prompt", str)
            case _:
                self._json(404, {})

    def _generate(self, request: dict[str, Any]) -> None:
        engine = self.server.engine
        text = require(request, "text", str)
        tokens = at_least_zero(request.get("sampling_params", {}), "max_new_tokens")
        fits(text)
        if engine.has(Fault.HANGS):
            engine.ended.wait()
        with engine.guard:
            engine.running += 1
            together = engine.running > 1
        # Long enough for the other requests of a test at concurrency 4 to arrive.
        engine.ended.wait(0.005)
        try:
            self._json(200, engine.generate(text, tokens, together))
        finally:
            with engine.guard:
                engine.running -= 1

    def _chat(self, request: dict[str, Any]) -> None:
        engine = self.server.engine
        messages = require(request, "messages", list)
        if not all(message["role"] in ("system", "user", "assistant") for message in messages):
            raise Malformed("role")
        require({"temperature": 0} | request, "temperature", int)
        at_least_zero({"max_tokens": 1} | request, "max_tokens")
        prompt = messages[-1]["content"]
        fits(prompt)
        if engine.has(Fault.CHAT_HANGS):
            engine.ended.wait()
        if engine.has(Fault.KEY_IN_ERROR):
            return self._json(500, {"error": f"cannot handle {self.headers['Authorization']}"})
        text = engine.answer(prompt)
        if request.get("stream"):
            return self._stream(text)
        answer: dict[str, Any] = {"choices": [choice("message", text, self._finish())]}
        if not engine.has(Fault.CHAT_WITHOUT_USAGE):
            answer["usage"] = usage(text)
        return self._json(200, answer)

    def _finish(self) -> str:
        return "length" if self.server.engine.has(Fault.CHAT_CUT) else "stop"

    def _stream(self, text: str) -> None:
        engine = self.server.engine
        step = len(text) if engine.has(Fault.STREAM_AT_ONCE) else 6
        parts = [text[at : at + step] for at in range(0, len(text), step)]
        if engine.has(Fault.STREAM_CUT):
            parts = parts[:-1]
        events: list[Any] = [{"choices": [choice("delta", part, None)]} for part in parts]
        if not engine.has(Fault.STREAM_WITHOUT_FINISH):
            events.append({"choices": [choice("delta", "", "stop")]})
        if not engine.has(Fault.STREAM_WITHOUT_USAGE):
            events.append({"choices": [], "usage": usage(text)})
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        if not engine.has(Fault.STREAM_WITHOUT_DONE):
            lines.append("data: [DONE]\n\n")
        self._send(200, "".join(lines).encode(), EVENTS)

    def _json(self, status: int, content: Any) -> None:
        self._send(status, json.dumps(content).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if kind == EVENTS and self.server.engine.has(Fault.STREAM_STALLS):
            self.wfile.write(content[: len(content) // 2])
            self.server.engine.ended.wait()
            return
        self.wfile.write(content)


class Server(ThreadingHTTPServer):
    """Ends with its engine: from then on its port refuses connections."""

    daemon_threads = True
    request_queue_size = 64
    timeout = 0.02

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.engine = engine
        engine.port = self.server_port

    def verify_request(self, *_: object) -> bool:
        # A request may have been accepted in the moment in which the engine ended.
        return not self.engine.ended.is_set()

    def serve(self) -> None:
        with self:
            while not self.engine.ended.is_set():
                self.handle_request()


def choice(kind: str, text: str, finish: str | None) -> dict[str, Any]:
    return {"index": 0, kind: {"role": "assistant", "content": text}, "finish_reason": finish}


def usage(text: str) -> dict[str, int]:
    return {"prompt_tokens": 9, "completion_tokens": len(text), "total_tokens": 9 + len(text)}


def parse(body: bytes) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(body)
    except ValueError as error:
        raise Malformed(str(error)) from None
    return content


def require(request: dict[str, Any], name: str, kind: type) -> Any:
    if not isinstance(request.get(name), kind):
        raise Malformed(name)
    return request[name]


def at_least_zero(request: dict[str, Any], name: str) -> int:
    value: int = require({name: 16} | request, name, int)
    if value < 0:
        raise Malformed(name)
    return value


def fits(text: str) -> None:
    if len(text.split()) > CONTEXT:
        raise Malformed("too long")


@contextmanager
def serving(engine: FakeEngine) -> Iterator[FakeEngine]:
    """The fake on a free port of this machine, until the block ends."""
    thread = threading.Thread(target=Server(engine).serve)
    thread.start()
    try:
        yield engine
    finally:
        engine.end()
        thread.join()
