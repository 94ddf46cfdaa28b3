"""A stream whose tokens end within characters gives each character once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sglang.srt.managers.detokenizer_manager import DetokenizerManager

WITHOUT = r"合格合格しま"


class Utf8Tokenizer:
    """Token i is a piece of UTF-8 that may end within a character, as byte-level BPE has them."""

    def __init__(self, text: str, cuts: list[int]) -> None:
        data = text.encode()
        ends = [*cuts, len(data)]
        self.pieces = [data[a:b] for a, b in zip([0, *cuts], ends, strict=True)]

    def decode(self, ids: list[int], **_: Any) -> str:
        return b"".join(self.pieces[i] for i in ids).decode(errors="replace")

    def batch_decode(self, batch: list[list[int]], **_: Any) -> list[str]:
        return [self.decode(ids) for ids in batch]


def stream(text: str, cuts: list[int]) -> list[str]:
    """What the real detokenizer sends for `text`, token by token."""
    manager: Any = object.__new__(DetokenizerManager)
    tokenizer = Utf8Tokenizer(text, cuts)
    vars(manager).update(
        tokenizer=tokenizer,
        decode_status={},
        disable_tokenizer_batch_decode=False,
        vocab_size=len(tokenizer.pieces),
        is_tool_call_parser_gpt_oss=False,
    )
    last = len(tokenizer.pieces) - 1
    return [
        manager._decode_batch_token_id_output(
            SimpleNamespace(
                rids=["r"],
                decoded_texts=[""],
                decode_ids=[[token]],
                read_offsets=[0],
                finished_reasons=[{"type": "length"} if token == last else None],
                no_stop_trim=[False],
                skip_special_tokens=[True],
                spaces_between_special_tokens=[True],
            )
        )[0]
        for token in range(last + 1)
    ]


def test_printable_part_that_shrinks_is_not_sent_twice() -> None:
    # 合格|し: three bytes each; the first token ends within し, the second within ま.
    assert "".join(stream("合格しました", [7, 10])) == "合格しました"


@pytest.mark.parametrize("text", ["合格しました", "naïve 格é格 ok", "emoji 🙂 格🙂し end"])
def test_every_cut_of_every_text_streams_exactly(text: str) -> None:
    size = len(text.encode())
    for first in range(1, size - 1):
        for second in range(first + 1, size):
            assert "".join(stream(text, [first, second])) == text, (first, second)
