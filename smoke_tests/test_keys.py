"""The two keys: each opens what it should, and neither is shown to anyone."""

import secrets

import pytest

ORDINARY = (
    ("GET", "/v1/models"),
    ("GET", "/server_info"),
    ("GET", "/model_info"),
    ("POST", "/generate"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/chat/completions"),
)
# The least harmful ones, should a check find them open: the first only empties the prefix cache of
# an idle engine, the second only reads, the third lacks its level and changes nothing.
ADMINISTRATIVE = (
    ("POST", "/flush_cache"),
    ("GET", "/hicache/storage-backend"),
    ("POST", "/set_trace_level"),
)
READABLE = ("/server_info", "/get_server_info", "/model_info", "/v1/models", "/metrics")
ENFORCE = "start the engine with both keys (dflash-kit serve always does)"


def open_to(engine, endpoints, keys):
    """Endpoints that do not answer 401 to each of `keys`, with the status that they gave."""
    statuses = {
        f"{method} {path}": engine.request(method, path, key=key, raw=b"{}").status_code
        for key in keys
        for method, path in endpoints
    }
    return {endpoint: status for endpoint, status in statuses.items() if status != 401}


def judge_refused(check, opened, count):
    check(
        ok=not opened,
        measured=f"{count - len(opened)} of {count} refused" + (f"; open: {opened}" * bool(opened)),
        wanted="401 from each",
        next_step=ENFORCE,
    )


@pytest.mark.check("no-key")
def test_no_key(check, engine):
    judge_refused(check, open_to(engine, ORDINARY, [None]), len(ORDINARY))


@pytest.mark.check("wrong-key")
def test_wrong_key(check, engine):
    judge_refused(check, open_to(engine, ORDINARY, [secrets.token_hex(16)]), len(ORDINARY))


@pytest.mark.check("admin-refuses-user")
def test_admin_refuses_user(check, engine):
    opened = open_to(engine, ADMINISTRATIVE, [engine.keys.user])
    judge_refused(check, opened, len(ADMINISTRATIVE))


@pytest.mark.check("admin-accepts-admin")
def test_admin_accepts_admin(check, engine):
    status = engine.request("GET", "/hicache/storage-backend", key=engine.keys.admin).status_code
    check(
        ok=status == 200,
        measured=status,
        wanted=200,
        next_step=f"the engine has another admin key than the one from {engine.key_source}",
    )


@pytest.mark.check("keys-hidden")
def test_keys_hidden(check, engine):
    shown, unread = [], []
    roles = {"user": engine.keys.user, "admin": engine.keys.admin}
    for path in READABLE:
        answer = engine.request("GET", path, key=engine.keys.user)
        found = [
            f"{path} shows the {role} key" for role, key in roles.items() if key in answer.text
        ]
        shown += found
        if answer.status_code != 200 and not found:
            unread.append(f"{path} answered {answer.status_code}")
    if unread and not shown:
        check.undetermined(
            measured="; ".join(unread),
            wanted="200 without a key from each",
            next_step="start the engine with the arguments of its profile, and see its log",
        )
    check(
        ok=not shown,
        measured="; ".join(shown) or f"no key in {len(READABLE)} answers",
        wanted="no key",
        next_step="replace both keys, and deploy a release that redacts them",
    )
