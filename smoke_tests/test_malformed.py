"""Malformed requests are refused, each with 4xx, and the engine outlives them."""

import pytest

from dflash_kit.smoke.client import CHAT
from dflash_kit.smoke.suite import status_of

COMPLETIONS, GENERATE = "/v1/completions", "/generate"
HELLO = [{"role": "user", "content": "Hello"}]
MODEL = {"model": "default"}
UNKNOWN_MODEL = "chat: unknown model"


def cases(context_tokens):
    """name -> (path, body); bytes are sent as they are."""
    # No tokenizer makes one token of two numbers.
    too_long = " ".join(str(number) for number in range(context_tokens + 1))
    return {
        "chat: broken JSON": (CHAT, b'{"messages": ['),
        "chat: no body": (CHAT, b""),
        "chat: no messages": (CHAT, MODEL),
        "chat: messages is text": (CHAT, MODEL | {"messages": "Hello"}),
        "chat: unknown role": (CHAT, MODEL | {"messages": [{"role": 7, "content": "Hello"}]}),
        "chat: temperature is text": (CHAT, MODEL | {"messages": HELLO, "temperature": "hot"}),
        "chat: negative max_tokens": (CHAT, MODEL | {"messages": HELLO, "max_tokens": -1}),
        "chat: too long": (CHAT, MODEL | {"messages": [{"role": "user", "content": too_long}]}),
        "completions: no prompt": (COMPLETIONS, MODEL),
        "generate: broken JSON": (GENERATE, b"{"),
        "generate: no text": (GENERATE, {"sampling_params": {}}),
        "generate: text is a number": (GENERATE, {"text": 7}),
        "generate: negative tokens": (
            GENERATE,
            {"text": "Hello", "sampling_params": {"max_new_tokens": -1}},
        ),
        "generate: too long": (GENERATE, {"text": too_long}),
    }


@pytest.mark.check("malformed")
def test_malformed(check, engine):
    context_tokens = engine.context_tokens()
    asked = cases(context_tokens)
    # Whether a model's name matters is the engine's policy; that it is no error of its own is ours.
    asked[UNKNOWN_MODEL] = (CHAT, {"model": "no-such-model", "messages": HELLO, "max_tokens": 1})
    wrong = []
    for name, case in asked.items():
        status = status_of(engine, *case)
        if not isinstance(status, int):
            wrong.append(f"{name}: {status}; nothing more was sent")
            break
        if not (400 <= status < 500 or (name == UNKNOWN_MODEL and status == 200)):
            wrong.append(f"{name}: {status}")
    check(
        ok=not wrong,
        measured="; ".join(wrong) or f"{len(asked)} of {len(asked)} right",
        wanted="4xx (200 for an unknown model)",
        next_step="see the engine's log",
    )


@pytest.mark.check("alive-after-malformed")
def test_alive_after_malformed(check, unlike_before):
    problem = unlike_before()
    check(
        ok=not problem,
        measured=problem or "the same answer",
        wanted="the same answer",
        next_step="a malformed request ended or corrupted the engine: see its log",
    )
