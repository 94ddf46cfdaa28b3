"""A small HTTP server that speaks the engine's endpoints for the fake engine."""

from __future__ import annotations

import json
import sys
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fake_chat
import fake_generate
import fake_in_flight
import fake_observed
import fake_state
from fake_engine import CONTEXT, KEYS, FakeEngine
from fake_faults import Fault
from fake_requests import Malformed, parse, require

TRACE_LEVEL = "/set_trace_level"
ADMINISTRATIVE = ("/flush_cache", "/hicache/storage-backend", "/abort_request", TRACE_LEVEL)
OVERSIZED_BYTES = 1 << 19


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
        if self.path.startswith("/flush_cache?"):  # its timeout
            self.path = "/flush_cache"
        length = int(self.headers.get("Content-Length") or 0)
        with engine.reading if engine.has(Fault.SLOW_CLIENT_BLOCKS) else nullcontext():
            body = self.rfile.read(length)
        if len(body) < length:  # the client went away
            return None
        try:
            if not self._allowed():
                return self.reply(401, {"error": "Unauthorized"})
            if len(body) > OVERSIZED_BYTES and engine.has(Fault.OVERSIZED_ACCEPTED):
                return self.reply(200, {})
            if len(body) > OVERSIZED_BYTES and engine.has(Fault.OVERSIZED_KILLS):
                engine.end()
                return None
            self._dispatch(body)
        except Malformed as error:
            fake_in_flight.count_bad_request(engine)
            if engine.has(Fault.MALFORMED_KILLS):
                engine.end()
                return None
            engine.corrupted |= engine.has(Fault.MALFORMED_CORRUPTS)
            codes = {Fault.MALFORMED_ACCEPTED: 200, Fault.MALFORMED_CRASHES: 500}
            self.reply(codes.get(engine.fault, 400), {"error": str(error)})
        except fake_state.Failed as error:
            self.reply(500, {"error": str(error)})
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
        accepted = {f"Bearer {'another' if engine.has(Fault.OTHER_USER_KEY) else KEYS.user}"}
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
            case "/flush_cache" if engine.has(Fault.BUSY):
                self.reply(400, "Flush cache failed.")
            case "/model_info" | "/flush_cache" | "/hicache/storage-backend":
                self.reply(200, {})
            case "/v1/models":
                models = [{"id": "tiny", "max_model_len": CONTEXT}]
                self.reply(200, {"data": [] if engine.has(Fault.NO_MODEL) else models})
            case "/metrics" if not engine.has(Fault.NO_METRICS):
                self.send(200, fake_observed.metrics(engine).encode(), "text/plain")
            case "/v1/loads?include=core":
                self.reply(200, fake_in_flight.loads(engine))
            case "/abort_request":
                fake_in_flight.abort(engine, require(parse(body), "rid", str))
                self.reply(200, {})
            case "/tokenize":
                text = require(parse(body), "prompt", str)
                if engine.has(Fault.UNICODE_COMPOSED):
                    text = unicodedata.normalize("NFC", text)
                self.reply(200, {"tokens": list(text.encode())})
            case "/detokenize":
                self.reply(200, {"text": bytes(require(parse(body), "tokens", list)).decode()})
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

    def handle_error(self, *where: Any) -> None:
        # Clients that go away are part of the tests.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*where)

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
