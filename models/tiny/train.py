"""Make the tiny pair: `python models/tiny/train.py --out DIR` (seeded, CPU, minutes)."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from answers import write_known_answers
from corpus import Conversations, build_tokenizer, load_corpus
from train_draft import train_draft
from train_target import train_target

SEED = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="gets target/, draft/, answers")
    out = parser.parse_args().out
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # sums in one order, whatever the number of cores
    torch.use_deterministic_algorithms(True)
    corpus = load_corpus()
    conversations = Conversations(corpus, build_tokenizer(corpus), SEED)
    target = train_target(conversations, out / "target")
    write_known_answers(corpus, out / "target", out / "known_answers.json")
    train_draft(conversations, target, out / "draft")


if __name__ == "__main__":
    main()
