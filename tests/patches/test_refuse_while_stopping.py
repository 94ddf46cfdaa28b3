"""After SIGTERM: what would generate is refused, what was begun is sent to its end."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from inside import inside
from sglang.srt.entrypoints import http_server
from sglang.srt.managers import tokenizer_manager
from starlette.responses import StreamingResponse

WITHOUT = r"assert 200 == 503"

# What users may post to and what generates nothing. A route that a later version adds belongs
# here or to what is refused: decide when a test names it.
NOT_GENERATING = {
    "/api/show",
    "/close_session",
    "/detokenize",
    "/open_session",
    "/parse_function_call",
    "/separate_reasoning",
    "/tokenize",
    "/v1/detokenize",
    "/v1/messages/count_tokens",
    "/v1/responses/{response_id}/cancel",
    "/v1/tokenize",
}


class Completions:
    """Answers in two pieces; the second one waits for `go`."""

    def __init__(self) -> None:
        self.first_sent, self.go = threading.Event(), threading.Event()

    async def handle_request(self, *_: Any) -> StreamingResponse:
        async def pieces() -> Any:
            yield b"first,"
            self.first_sent.set()
            while not self.go.is_set():
                await asyncio.sleep(0.01)
            yield b"last"

        return StreamingResponse(pieces())


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = SimpleNamespace(gracefully_exit=False, open_answers=0, rid_to_state={})
    state = SimpleNamespace(tokenizer_manager=made)
    monkeypatch.setattr(http_server, "_global_state", state)
    return made


@pytest.fixture
def completions() -> Completions:
    made = Completions()
    http_server.app.state.openai_serving_completion = made
    return made


@pytest.fixture
def port(manager: Any, completions: Completions) -> Iterator[int]:
    """The engine's real application behind the real HTTP server."""
    config = uvicorn.Config(
        http_server.app, port=0, lifespan="off", loop="asyncio", log_level="error"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the HTTP server did not start"
    yield server.servers[0].sockets[0].getsockname()[1]
    completions.go.set()  # else a test that failed would leave an answer open
    server.should_exit = True
    thread.join()


def connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=20)


def post(
    connection: http.client.HTTPConnection, path: str = "/v1/completions", text: str = "x"
) -> http.client.HTTPResponse:
    body = json.dumps({"model": "tiny", "prompt": text})
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    return connection.getresponse()


def test_a_kept_connection_is_refused_and_closed(
    port: int, manager: Any, completions: Completions
) -> None:
    completions.go.set()
    kept = connect(port)
    assert post(kept).read() == b"first,last"
    manager.gracefully_exit = True
    # A body of more than one read: it has to be taken before the connection closes.
    refused = post(kept, text="x" * 3_000_000)
    assert refused.status == 503
    assert refused.headers["Connection"] == "close"
    assert int(refused.headers["Retry-After"]) > 0
    assert "stopping" in json.loads(refused.read())["message"]
    assert refused.will_close
    assert post(connect(port)).status == 503


def test_an_answer_that_was_begun_is_sent_to_its_end(
    port: int, manager: Any, completions: Completions
) -> None:
    begun = post(connect(port))
    assert completions.first_sent.wait(10)
    assert manager.open_answers == 1
    manager.gracefully_exit = True
    assert post(connect(port)).status == 503
    assert manager.open_answers == 1
    completions.go.set()
    assert begun.read() == b"first,last"
    # The client may have the last byte before the server has taken note of it.
    patience = time.monotonic() + 20
    while manager.open_answers and time.monotonic() < patience:
        time.sleep(0.01)
    assert manager.open_answers == 0


def test_health_answers_as_before(port: int, manager: Any) -> None:
    manager.gracefully_exit = True
    for path in ("/health", "/health_generate"):
        connection = connect(port)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (503, b"")
        assert answer.headers["Retry-After"] is None  # the engine's own answer


def ask(path: str) -> tuple[int, bytes]:
    """Status and body of a POST without a body, from the application itself."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    try:
        asyncio.run(http_server.app(scope, receive, send))
    except Exception:  # what it does with the stand-in behind it is not looked at
        return 500, b""
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def user_posts() -> set[str]:
    return {
        route.path
        for route in inside.routes(http_server.app)
        if {"POST", "PUT"} & route.methods and not hasattr(route.endpoint, "_auth_level")
    }


def test_every_route_that_generates_is_refused(manager: Any) -> None:
    manager.gracefully_exit = True
    assert user_posts() > NOT_GENERATING
    answers = {path: ask(path)[0] for path in user_posts()}
    served = {path for path, status in answers.items() if status != 503}
    assert served == NOT_GENERATING, sorted(served ^ NOT_GENERATING)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/v1/chat/completions", lambda error: error["code"] == 503 and error["message"]),
        (
            "/v1/responses",
            lambda error: error["error"]["code"] == 503 and error["error"]["message"],
        ),
        ("/v1/messages", lambda error: error["type"] == "error" and error["error"]["message"]),
        ("/generate", lambda error: error["error"]["message"]),
        ("/api/chat", lambda error: error["error"]),
    ],
)
def test_the_error_has_the_shape_of_its_api(
    manager: Any, path: str, message: Callable[[Any], str]
) -> None:
    manager.gracefully_exit = True
    status, body = ask(path)
    assert status == 503
    assert "stopping" in message(json.loads(body))


def test_the_end_waits_for_the_last_answer(manager: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No request is left inside, but one answer is not sent to its end."""
    manager.gracefully_exit = True
    manager.open_answers = 1
    manager.server_status = None
    inside.watch(manager)
    manager.dump_requests_before_crash = lambda: None
    turns: list[str] = []

    async def sleep(_: float) -> None:
        turns.append("wait")
        if len(turns) == 3:
            manager.open_answers = 0

    monkeypatch.setattr(tokenizer_manager, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(
        tokenizer_manager, "kill_process_tree", lambda *_, **__: turns.append("end")
    )
    with pytest.raises(SystemExit):
        asyncio.run(tokenizer_manager.TokenizerManager.sigterm_watchdog(manager))
    assert turns == ["wait"] * 3 + ["end"]
