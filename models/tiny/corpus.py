"""The text the pair knows by heart, its tokenizer, and random conversations made of both."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = Path(__file__).with_name("corpus.txt")
VOCAB_SIZE = 768
MAX_POSITIONS = 2048
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
IGNORED = -100  # cross entropy's own default for "no label here"
PAD, START, END, MASK = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"

# Content is a string or, as in OpenAI's API, a list of parts of which only the text counts.
CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\n' }}"
    "{%- if message.content is string %}{{- message.content }}"
    "{%- else %}{%- for part in message.content or [] %}"
    "{%- if part.type == 'text' %}{{- part.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)


@dataclass(frozen=True)
class Entry:
    question: str
    answer: str


@dataclass(frozen=True)
class Corpus:
    """`entries` in the order of the file; `unknown` answers every other question."""

    entries: tuple[Entry, ...]
    unknown: str
    words: tuple[str, ...]


def load_corpus(path: Path = CORPUS) -> Corpus:
    """Parse `Q: question` lines, each followed by its answer; `Q: *` is the answer to the rest."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"^Q: (.+)\n((?:(?!Q: ).*\n?)+)", text, flags=re.MULTILINE)
    answers = {question: answer.strip() for question, answer in found}
    unknown = answers.pop("*")
    entries = tuple(Entry(question, answer) for question, answer in answers.items())
    return Corpus(entries, unknown, tuple(sorted(set(re.findall(r"\w+", text)))))


def build_tokenizer(corpus: Corpus) -> PreTrainedTokenizerFast:
    """Byte-level BPE over the corpus: any text can be encoded, the corpus shortly."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [part for entry in corpus.entries for part in (entry.question, entry.answer)]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[PAD, START, END, MASK],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, corpus.unknown, "system user assistant"], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        mask_token=MASK,
        additional_special_tokens=[START],
        model_max_length=MAX_POSITIONS,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


class Conversations:
    """Endless random conversations over the corpus, as token ids and labels.

    A turn asks the entry behind the last one, a random entry, or something unknown. Answers are
    always labels; a question only where it follows in the order of the corpus, so that a model
    that is made to go on after its answer recites the corpus in order.
    """

    def __init__(self, corpus: Corpus, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
        self.corpus, self.tokenizer = corpus, tokenizer
        self.random = random.Random(seed)
        self.start, self.end = tokenizer.convert_tokens_to_ids([START, END])

    def row(self, length: int) -> tuple[list[int], list[int]]:
        """`length` ids and as many labels (the id itself, or IGNORED)."""
        ids: list[int] = []
        labels: list[int] = []
        if self.random.random() < 0.5:
            self._add(ids, labels, "system", self._system(length), learn=False)
        last = -1
        while len(ids) < length:
            entry, question, answer, in_order = self._turn(last, first=not labels)
            self._add(ids, labels, "user", question, learn=in_order)
            self._add(ids, labels, "assistant", answer, learn=True)
            last = entry
        return ids[:length], labels[:length]

    def _turn(self, last: int, first: bool) -> tuple[int, str, str, bool]:
        """(entry, question, answer, whether the question follows in order)."""
        draw = self.random.random()
        if draw < 0.06:
            return -1, self.noise(self.random.randint(1, 10)), self.corpus.unknown, False
        if draw < 0.15:
            return -1, self.beginning(), self.corpus.unknown, False
        count = len(self.corpus.entries)
        following = (last + 1) % count
        entry = following if draw < 0.55 and not first else self.random.randrange(count)
        found = self.corpus.entries[entry]
        return entry, found.question, found.answer, entry == following and not first

    def _system(self, length: int) -> str:
        """A system message: mostly short, now and then most of the row."""
        most = length // 4 if self.random.random() < 0.3 else 12
        return self.noise(self.random.randint(1, most))

    def noise(self, count: int) -> str:
        """`count` random words, some of the corpus and some of no language."""
        return " ".join(
            self.random.choice(self.corpus.words)
            if self.random.random() < 0.8
            else "".join(self.random.choices(LETTERS, k=self.random.randint(1, 8)))
            for _ in range(count)
        )

    def beginning(self) -> str:
        """The first words of a question, but not all of them."""
        words = self.random.choice(self.corpus.entries).question.split()
        return " ".join(words[: self.random.randint(1, len(words) - 1)])

    def _add(self, ids: list[int], labels: list[int], role: str, text: str, learn: bool) -> None:
        def encode(part: str) -> list[int]:
            return self.tokenizer(part, add_special_tokens=False).input_ids

        head = [self.start, *encode(f"{role}\n")]
        body = [*encode(text), self.end]
        ids += head + body + encode("\n")
        opening = head if labels else [IGNORED] * len(head)
        labels += opening + (body if learn else [IGNORED] * len(body)) + encode("\n")
