"""Degenerate answers are told from real ones."""

import pytest

from dflash_kit.profiles.load import load_pair
from dflash_kit.smoke import degenerate
from dflash_kit.smoke.wanted import load_known_answers

KNOWN = load_known_answers(load_pair("tiny"))
SENTENCE = "The engine serves the model to many users at once, and each gets an answer. "


@pytest.mark.parametrize("answer", KNOWN.answers, ids=lambda known: known.prompt)
def test_known_answers_are_language(answer):
    for cut in (len(answer.answer), len(answer.answer) // 2, 20):
        assert degenerate.problem(answer.answer[:cut]) == ""


@pytest.mark.parametrize("exact", KNOWN.exact, ids=lambda exact: exact.prompt_text[-40:])
def test_known_tokens_are_no_loop(exact):
    assert degenerate.token_problem(exact.output_ids) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "| a | b |\n|-----------------------|--------------------|\n| 1 | 2 |",
        "A title\n" + "=" * 60 + "\nand text",
        "def f():\n" + " " * 40 + "return 1",
        "ha ha ha, no",
        "1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0",
        "half a character at the end \ufffd",
        "検証に合格しました。" * 2,
    ],
)
def test_what_looks_odd_and_is_right(text):
    assert degenerate.problem(text) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("!" * 30, "'!' 30 times in a row"),
        (SENTENCE + "a" * 12, "'a' 12 times in a row"),
        ("The answer \ufffd\ufffd is 4.", "2 characters that are no text"),
        (SENTENCE + "and so on " * 12, "ends in a loop of"),
        (SENTENCE * 5, "ends in a loop of"),
        (SENTENCE + "検証に合格しました。" * 8, "ends in a loop of"),
        ((SENTENCE + "Then ") * 6 + "it stops.", "groups of 4 words are different"),
    ],
)
def test_what_a_broken_engine_says(text, said):
    assert said in degenerate.problem(text)


@pytest.mark.parametrize(("count", "wrong"), [(15, False), (16, True)])
def test_one_token_again_and_again(count, wrong):
    assert bool(degenerate.token_problem([4, 5, *[7] * count, 8])) is wrong
