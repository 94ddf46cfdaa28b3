"""What the smoke suite's client makes of answers, and how work goes on beside a check."""

import time

import pytest
import requests

from dflash_kit.errors import CheckFailed
from dflash_kit.smoke.beside import repeating, wait_for
from dflash_kit.smoke.client import Load, Refused, chat_body, expect_ok, generate_body
from dflash_kit.smoke.stream import Stream


def answered(status):
    response = requests.Response()
    response.status_code, response._content = status, b"because"
    return response


@pytest.mark.parametrize(
    ("status", "refused"), [(400, True), (404, True), (500, False), (302, False)]
)
def test_only_4xx_is_a_refusal(status, refused):
    with pytest.raises(CheckFailed, match=f"/x answered {status}: 'because'") as error:
        expect_ok(answered(status), "/x")
    assert isinstance(error.value, Refused) == refused


def delta(finish=None, **content):
    return {"choices": [{"index": 0, "delta": content, "finish_reason": finish}]}


def test_stream_is_put_together():
    stream = Stream()
    call = {"index": 0, "id": "1", "function": {"name": "f", "arguments": '{"a"'}}
    more = {"index": 0, "id": None, "function": {"name": None, "arguments": ": 1}"}}
    for chunk in (
        delta(role="assistant", content=""),
        delta(reasoning_content="Hm."),
        delta(content="On", tool_calls=None),
        delta(content="ce"),
        delta(tool_calls=[call]),
        delta(tool_calls=[more]),
        delta("stop"),
        {"choices": [], "usage": {"total_tokens": 3}},
    ):
        stream.add(chunk)
    assert (stream.text, stream.chunks, stream.reasoning) == ("Once", ["On", "ce"], ["Hm."])
    assert stream.calls == {0: {"name": "f", "arguments": '{"a": 1}'}}
    assert (stream.finish_reasons, stream.usage) == (["stop"], {"total_tokens": 3})


def test_error_within_a_stream_is_not_an_empty_answer():
    with pytest.raises(CheckFailed, match="the stream says .*too long"):
        Stream().add({"error": {"message": "too long"}})


def test_options_win_over_what_is_asked_by_default():
    assert chat_body("x", 5, temperature=1)["temperature"] == 1
    assert generate_body("x", 5, max_new_tokens=6)["sampling_params"] == {
        "temperature": 0,
        "max_new_tokens": 6,
        "ignore_eos": True,
    }


@pytest.mark.parametrize(
    ("now", "within"), [((1, 5), True), ((0, 0), True), ((2, 5), False), ((1, 6), False)]
)
def test_load_within_an_earlier_one(now, within):
    assert Load(*now).within(Load(1, 5)) == within


def test_work_goes_on_for_as_long_as_the_block():
    done = []
    with repeating(lambda: done.append(time.sleep(0.001)), 2):
        assert wait_for(lambda: len(done) > 4, 5.0)
    count = len(done)
    time.sleep(0.02)
    assert len(done) == count


def test_error_of_the_work_beside_is_not_lost():
    def work():
        raise CheckFailed("beside")

    with pytest.raises(CheckFailed, match="beside"), repeating(work, 2):
        pass


def test_waiting_has_an_end():
    assert not wait_for(lambda: False, 0.15)
