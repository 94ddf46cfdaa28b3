"""Chat answers, whole and streamed."""

from os.path import commonprefix

import pytest

LOG = "see the engine's log"


@pytest.mark.check("chat")
def test_chat(check, engine, known):
    asked = known.longest
    answer = engine.chat(asked.prompt, asked.room)
    choice, usage = answer["choices"][0], answer["usage"]
    problems = []
    if choice["message"]["role"] != "assistant" or not choice["message"]["content"]:
        problems.append(f"message {choice['message']}")
    if choice["finish_reason"] != "stop":
        problems.append(f"finish reason {choice['finish_reason']}")
    prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
    if min(prompt, completion) < 1 or prompt + completion != usage["total_tokens"]:
        problems.append(f"usage {usage}")
    check(
        ok=not problems,
        measured="; ".join(problems) or f"stop, {prompt} + {completion} tokens",
        wanted="stop, usage adds up",
        next_step=LOG,
    )


@pytest.mark.check("stream")
def test_stream(check, engine, known):
    asked = known.longest
    stream = engine.chat_stream(asked.prompt, asked.room)
    tokens = (stream.usage or {}).get("completion_tokens", 0)
    problems = []
    if len(stream.chunks) < 2:
        problems.append(f"{len(stream.chunks)} chunks")
    if stream.finish_reasons != ["stop"]:
        problems.append(f"finish reasons {stream.finish_reasons}")
    if tokens < 1:
        problems.append(f"usage {stream.usage}")
    if not stream.done:
        problems.append("no [DONE]")
    check(
        ok=not problems,
        measured="; ".join(problems) or f"{len(stream.chunks)} chunks, stop, {tokens} tokens, end",
        wanted="2+ chunks, stop, usage, end",
        next_step=LOG,
    )


def judge_answers(check, known, ask):
    wrong = []
    for answer in known.answers:
        got = ask(answer)
        if got != answer.answer:
            at = len(commonprefix([got, answer.answer]))
            wrong.append(f"{answer.prompt!r} differs at {at}: {got[max(0, at - 5) : at + 10]!r}")
    count = len(known.answers)
    measured = f"{count - len(wrong)} of {count} equal"
    check(
        ok=not wrong,
        measured=measured + (f"; {wrong[0]}" if wrong else ""),
        wanted=f"{count} of {count} equal",
        next_step="compare the weights with the pair's; right at the point throughput alone: see "
        "DFlash; right without streaming alone: see the detokenizer",
    )


@pytest.mark.check("known-answers")
def test_known_answers(check, engine, known):
    def ask(answer):
        return engine.chat(answer.prompt, answer.room)["choices"][0]["message"]["content"]

    judge_answers(check, known, ask)


@pytest.mark.check("known-answers-stream")
def test_known_answers_stream(check, engine, known):
    judge_answers(check, known, lambda a: engine.chat_stream(a.prompt, a.room).text)
