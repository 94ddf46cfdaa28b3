"""The user key opens what a user of the API needs and nothing that changes the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from inside import inside
from sglang.srt.entrypoints.http_server import app
from sglang.srt.utils import auth

WITHOUT = (
    r"the user key opens .*/(load_lora_adapter_from_tensors.*/set_trace_level|scale_elastic_ep)"
)

USER, ADMIN = "the-user-key", "the-admin-key"

# Generating and what belongs to it, and reading what the engine is. An endpoint that a later
# version adds belongs here or to the administrator: decide when this test names it.
FOR_USERS = {
    "/",
    "/api/chat",
    "/api/generate",
    "/api/show",
    "/api/tags",
    "/classify",
    "/close_session",
    "/detokenize",
    "/docs",
    "/docs/oauth2-redirect",
    "/encode",
    "/generate",
    "/get_hicache_l3_cache_layout",
    "/get_load",
    "/get_model_info",
    "/get_server_info",
    "/get_weight_version",
    "/invocations",
    "/model_info",
    "/open_session",
    "/openapi.json",
    "/parse_function_call",
    "/ping",
    "/redoc",
    "/separate_reasoning",
    "/server_info",
    "/tokenize",
    "/v1/audio/transcriptions",
    "/v1/chat/completions",
    "/v1/classify",
    "/v1/completions",
    "/v1/decisions",
    "/v1/detokenize",
    "/v1/embeddings",
    "/v1/loads",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/models",
    "/v1/models/{model:path}",
    "/v1/rerank",
    "/v1/responses",
    "/v1/responses/{response_id}",
    "/v1/responses/{response_id}/cancel",
    "/v1/score",
    "/v1/systemone",
    "/v1/tokenize",
    "/vertex_generate",
    "/weight_version",
}
# The probes of orchestrators have no key.
FOR_ALL = {"/health", "/health_generate", "/ready"}


def endpoints() -> Iterator[tuple[str, str]]:
    """Each (method, path) of the engine's HTTP server."""
    for route in inside.routes(app):
        # A route without methods (a mounted application) would need another test.
        yield from ((method, route.path) for method in route.methods)


def open_to(key: str) -> set[str]:
    """The paths that the engine's own middleware lets `key` pass to, with both keys set."""
    return {path for method, path in endpoints() if is_allowed(method, path, f"Bearer {key}")}


def is_allowed(method: str, path: str, authorization: str | None) -> bool:
    scope = {"type": "http", "method": method, "path": path, "headers": []}
    return auth.decide_request_auth(
        method=method,
        path=path,
        authorization_header=authorization,
        api_key=USER,
        admin_api_key=ADMIN,
        auth_level=auth._get_auth_level_from_app_and_scope(app, scope),
    ).allowed


def test_the_user_key_opens_what_users_need_and_no_more() -> None:
    opened = open_to(USER) - FOR_ALL
    assert not opened - FOR_USERS, f"the user key opens {sorted(opened - FOR_USERS)}"
    closed = FOR_USERS & {path for _, path in endpoints()} - opened
    assert not closed, f"the user key does not open {sorted(closed)}"
    assert len(opened) > 40


def test_the_admin_key_opens_everything_else() -> None:
    assert open_to(ADMIN) - FOR_ALL == {path for _, path in endpoints()} - FOR_USERS - FOR_ALL


@pytest.mark.parametrize("authorization", [None, "", "Bearer ", "Bearer another", USER])
def test_no_key_opens_nothing_but_health(authorization: str | None) -> None:
    opened = {path for method, path in endpoints() if is_allowed(method, path, authorization)}
    assert opened == FOR_ALL & {path for _, path in endpoints()}
