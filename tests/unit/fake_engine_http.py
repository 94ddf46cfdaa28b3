"""A small HTTP server that speaks the engine's endpoints for the fake engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fake_chat
import fake_generate
import fake_observed
from fake_engine import CONTEXT, KEYS, FakeEngine
from fake_faults import Fault
from fake_requests import Malformed, parse, require

TRACE_LEVEL = "/set_trace_level"
ADMINISTRATIVE = ("/flush_cache", "/hicache/storage-backend", TRACE_LEVEL)


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
                return self.reply(401, {"error": "Unauthorized"})
            self._dispatch(body)
        except Malformed as error:
            if engine.has(Fault.MALFORMED_KILLS):
                engine.end()
                return None
            engine.corrupted = engine.has(Fault.MALFORMED_CORRUPTS)
            codes = {Fault.MALFORMED_ACCEPTED: 200, Fault.MALFORMED_CRASHES: 500}
            self.reply(codes.get(engine.fault, 400), {"error": str(error)})
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
                self.reply(503 if engine.has(Fault.UNHEALTHY) else 200, {})
            case "/set_trace_level":
                raise Malformed("no level")
            case "/get_server_info" if engine.has(Fault.KEY_LEAKED_IN_ERROR):
                self.reply(500, {"error": KEYS.admin})
            case "/server_info" | "/get_server_info":
                self.reply(200, fake_observed.server_info(engine))
            case "/model_info" | "/flush_cache" | "/hicache/storage-backend":
                self.reply(200, {})
            case "/v1/models":
                models = [{"id": "tiny", "max_model_len": CONTEXT}]
                self.reply(200, {"data": [] if engine.has(Fault.NO_MODEL) else models})
            case "/metrics" if not engine.has(Fault.NO_METRICS):
                self.send(200, fake_observed.metrics(engine).encode(), "text/plain")
            case "/generate":
                fake_generate.generate(self, parse(body))
            case "/v1/chat/completions":
                fake_chat.chat(self, parse(body))
            case "/v1/completions":
                require(parse(body), "prompt", str)
            case _:
                self.reply(404, {})

    def reply(self, status: int, content: Any) -> None:
        self.send(status, json.dumps(content).encode(), "application/json")

    def send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if kind == fake_chat.EVENTS and self.server.engine.has(Fault.STREAM_STALLS):
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
