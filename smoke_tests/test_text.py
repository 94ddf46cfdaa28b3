"""What a text goes through on its way to the client: stop strings, scripts, and its account."""

import re

import pytest

LOG = "see the engine's log"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
SCRIPTS = {
    "emoji": "🚀 👩‍👩‍👧‍👦 👍🏽 🇪🇺",
    "CJK": "検証に合格しました 验证通过 검증 통과 𠮷野家",
    "combining": "e\u0301 n\u0303 A\u030a \u0e01\u0e33\u0e25\u0e31\u0e07",
    "right to left": "הבדיקה עברה בהצלחה نجح الاختبار",
    "indic": "परीक्षण सफल रहा",
    "mathematical": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ∑ ∞ √2",
}


def a_stop_string(message):
    """A word from the second half of an answer that does not occur before; None without one.

    A whole word, since the engine looks for a stop string in so many last tokens as it has itself.
    """
    text, thought = message["content"], message.get("reasoning_content") or ""
    for word in re.finditer(r" \w{3,}", text):
        at, piece = word.start(), word.group()
        if at >= len(text) // 2 and text.index(piece) == at and piece not in thought:
            return piece
    return None


@pytest.mark.check("stop-strings")
def test_stop_strings(check, engine, known):
    asked = known.longest
    message = engine.chat(asked.prompt, asked.room)["choices"][0]["message"]
    stop = a_stop_string(message)
    wanted = "nothing of the stop string and beyond, reason stop"
    if stop is None:
        check.undetermined("the answer repeats itself", wanted, "record longer known answers")
    choice = engine.chat(asked.prompt, asked.room, stop=stop)["choices"][0]
    stream = engine.chat_stream(asked.prompt, asked.room, stop=stop)
    kept = message["content"].partition(stop)[0]
    problems = []
    if choice["message"]["content"] != kept or choice["finish_reason"] != "stop":
        problems.append(f"whole: {choice['finish_reason']}, {choice['message']['content']!r}")
    # A stream may have sent the stop string's beginning before the rest of it was there.
    begun = stream.text.removeprefix(kept)
    if not (stream.text.startswith(kept) and stop.startswith(begun) and begun != stop):
        problems.append(f"streamed: ...{stream.text[-40:]!r}")
    if stream.finish_reasons != ["stop"]:
        problems.append(f"streamed: finish reasons {stream.finish_reasons}")
    check(
        ok=not problems,
        measured="; ".join(problems) or f"ended before {stop!r}",
        wanted=wanted,
        next_step=LOG,
    )


def wrong_account(usage, reason, limit):
    """What is wrong with an answer's usage and finish reason, if anything is."""
    if not usage or reason not in ("stop", "length"):
        return f"usage {usage}, finish reason {reason}"
    prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
    if min(prompt, completion) < 1 or prompt + completion != usage["total_tokens"]:
        return f"usage {usage}"
    if completion > limit or (reason == "length" and completion != limit):
        return f"{completion} tokens of {limit}, finish reason {reason}"
    return None


@pytest.mark.check("usage")
def test_usage(check, engine, known):
    asked = known.longest
    problems = []
    # One token comes from the prefill alone, five end within a draft's block.
    for limit in (1, 5, 2 * asked.room):
        answer = engine.chat(asked.prompt, limit)
        stream = engine.chat_stream(asked.prompt, limit)
        usage, reason = answer.get("usage"), answer["choices"][0]["finish_reason"]
        found = {
            "whole": wrong_account(usage, reason, limit),
            "streamed": wrong_account(stream.usage, "".join(stream.finish_reasons), limit),
        }
        problems += [f"{kind}, limit {limit}: {what}" for kind, what in found.items() if what]
        if not any(found.values()) and counts(usage) != counts(stream.usage):
            problems.append(
                f"limit {limit}: whole {counts(usage)}, streamed {counts(stream.usage)}"
            )
    check(
        ok=not problems,
        measured="; ".join(problems) or "equal and adding up, 3 lengths",
        wanted="the same sums, whole and streamed, and a finish reason",
        next_step=LOG,
    )


def counts(usage):
    return usage["prompt_tokens"], usage["completion_tokens"]


@pytest.mark.check("unicode")
def test_unicode(check, engine, known):
    problems = []
    for script, text in SCRIPTS.items():
        tokens = engine.post("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
        if (got := engine.post("/detokenize", {"tokens": tokens})["text"]) != text:
            problems.append(f"{script}: tokens say {got!r}")
    foreign = [answer for answer in known.answers if not answer.answer.isascii()]
    asked = [(answer.prompt, answer.room) for answer in foreign]
    for prompt, tokens in asked or [(f"Repeat exactly: {' '.join(SCRIPTS.values())}", 256)]:
        whole = engine.chat(prompt, tokens)["choices"][0]["message"]["content"] or ""
        streamed = engine.chat_stream(prompt, tokens).text
        if whole != streamed:
            problems.append(f"whole {whole[-40:]!r}, streamed {streamed[-40:]!r}")
        # At its end a text may be cut within a character.
        if REPLACEMENT in streamed[:-1] or REPLACEMENT in whole[:-1]:
            problems.append(f"a character is broken: {streamed[:80]!r}")
    check(
        ok=not problems,
        measured="; ".join(problems) or f"{len(SCRIPTS)} scripts unharmed",
        wanted="every character, whole and streamed",
        next_step="see the tokenizer of the target, and the engine's detokenizer",
    )
