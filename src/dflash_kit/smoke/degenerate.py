"""Text that a broken engine makes: loops, one token again and again, bytes that are no text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

REPLACEMENT = "\ufffd"
# Rules drawn in Markdown and white space in code are long runs, and right.
DRAWN = frozenset("-=_*#~.+|─ \t\n")
RUN = 12  # the same character: no word and no number has so many
LOOP_UNIT, LOOP_TIMES, LOOP_SPAN = 120, 4, 64  # a list of four equal lines is no answer either
GRAM, GRAMS, DISTINCT = 4, 40, 0.35  # of four words; the known answers have above 0.9
SAME_TOKEN = 16


def problem(text: str) -> str:
    """What is degenerate about `text`; empty if nothing is."""
    # The last character of an answer that was cut may be half there.
    if REPLACEMENT in text.rstrip(REPLACEMENT):
        return f"{text.count(REPLACEMENT)} characters that are no text"
    for character, run in groupby(text):
        if character not in DRAWN and (length := len(list(run))) >= RUN:
            return f"{character!r} {length} times in a row"
    if unit := loop(text.rstrip()):
        return f"ends in a loop of {unit[:40]!r}"
    words = text.split()
    grams = [tuple(words[at : at + GRAM]) for at in range(len(words) - GRAM + 1)]
    if len(grams) >= GRAMS and (share := len(set(grams)) / len(grams)) < DISTINCT:
        return f"only {share:.0%} of its groups of {GRAM} words are different"
    return ""


def token_problem(ids: Sequence[int]) -> str:
    """The same for token ids: one of them again and again."""
    for token, run in groupby(ids):
        if (length := len(list(run))) >= SAME_TOKEN:
            return f"token {token} {length} times in a row"
    return ""


def loop(text: str) -> str:
    """The unit that the end of `text` repeats; empty where it does not."""
    for size in range(1, min(LOOP_UNIT, len(text) // LOOP_TIMES) + 1):
        times = max(LOOP_TIMES, -(-LOOP_SPAN // size))
        unit = text[-size:]
        if set(unit) <= DRAWN:
            continue
        if text.endswith(unit * times):
            return unit
    return ""
