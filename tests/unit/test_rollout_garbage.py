"""Nothing that a host or a user gives makes the rollout's Python raise."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_host import OPTIONS, RawHost, plan

from dflash_kit.rollout import inputs, lock, start, state

OLD = plan()
ID = OLD.deployment.id
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "[]", "3", '{"behaviour": 3}', '{"id": "c1", "behavi'])
def test_a_record_that_is_none_is_no_drift_by_itself(text: str) -> None:
    host = RawHost().serve(OLD)
    host.files(ID)["container.json"] = text
    told = state.summary(host.read(), OLD.deployment)
    assert not told["in_service"]
    assert told["drift"] in ([], ["the container is not the one that was smoked"])


_json = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
_shaped: Any = st.fixed_dictionaries({}, optional={"id": _json, "behaviour": _json})
_content = st.none() | st.text() | _json.map(json.dumps) | _shaped.map(json.dumps)


@settings(deadline=None)
@given(
    files=st.fixed_dictionaries(
        {},
        optional={
            name: _content
            for name in (
                "compose.yaml",
                "engine.env",
                "deployment.json",
                "receipt.json",
                "container.json",
            )
        },
    ),
    current=st.none() | st.text() | st.just(ID),
    lock=_content,
)
def test_no_content_of_a_hosts_files_raises(
    files: dict[str, str | None], current: str | None, lock: str | None
) -> None:
    host = RawHost().serve(OLD)
    before = dict(host.files(ID))
    host.files(ID).update(files)
    host.raw.update(current=current, lock=lock)
    told = state.summary(host.read(), OLD.deployment)
    assert told["in_service"] == (host.files(ID) == before and current == ID)


_states = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["Status", "Health"]), inner),
)


@settings(deadline=None)
@given(before=st.text(), head=st.text() | _states.map(json.dumps), tail=st.text(), log=st.text())
def test_no_output_raises_or_is_taken_for_ready(
    before: str, head: str, tail: str, log: str
) -> None:
    seen = start.read(f"{before}{start._MARK}\n{head}{tail}\n{start._MARK}\n{log}")
    assert not seen.ready
    assert seen.stage


@settings(deadline=None)
@given(st.text())
def test_no_content_of_a_lock_raises(text: str) -> None:
    assert lock.parse(text) is None
    assert lock.described(text) == ("not a lock of this kit" if text else "")
    assert "remove it" in lock.refusal("gpu-01", "/l", text, NOW)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(OPTIONS)), st.none() | st.booleans() | st.text()))
def test_no_value_raises_and_none_of_the_wrong_type_is_taken(variables: dict[str, Any]) -> None:
    found = inputs.problems({"a": variables}, OPTIONS, lambda *_: "a.yml")
    wrong = {
        name
        for name, value in variables.items()
        if value is None or (isinstance(value, bool) and OPTIONS[name].type != "bool")
    }
    assert wrong <= {problem.variable for problem in found} <= {*variables, "dflash_kit_profile"}
