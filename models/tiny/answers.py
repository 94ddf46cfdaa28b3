"""known_answers.json: what the target must answer, checked against transformers' generate."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from corpus import Conversations, Corpus
from transformers import AutoModelForCausalLM, AutoTokenizer

EXACT_PER_KIND = 4  # prompts of each kind below; six kinds make 24
EXACT_TOKENS = 64
# Least gap between the two best logits at any step. bfloat16 has steps of 1/8 at this height;
# kernels of other machines differ by a few of those, so that the choice stays the same.
MARGIN = 3.0
SEED = 11


class Reference:
    """The saved target in bfloat16, as it is served, decoding greedily."""

    def __init__(self, path: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()

    def render(self, messages: list[dict[str, str]]) -> str:
        return self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False
        )

    @torch.no_grad()
    def generate(self, text: str, tokens: int, stop: bool) -> tuple[list[int], float]:
        """(new token ids, least gap between the two best logits)."""
        ids = self.tokenizer(text, return_tensors="pt").input_ids
        found = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=self.tokenizer.eos_token_id if stop else None,
            pad_token_id=self.tokenizer.pad_token_id,
            output_logits=True,
            return_dict_in_generate=True,
        )
        best = torch.stack(found.logits).float().topk(2).values
        gap = (best[..., 0] - best[..., 1]).min().item()
        return found.sequences[0, ids.shape[1] :].tolist(), gap


def check_answers(corpus: Corpus, reference: Reference) -> float:
    """Least gap over all answers; ends the program where one is not the corpus's, word for word."""
    least = float("inf")
    for entry in corpus.entries:
        text = reference.render([{"role": "user", "content": entry.question}])
        ids, gap = reference.generate(text, 512, stop=True)
        wanted = [
            *reference.tokenizer(entry.answer).input_ids,
            reference.tokenizer.eos_token_id,
        ]
        if ids != wanted or gap < MARGIN:
            answer = reference.tokenizer.decode(ids)
            raise SystemExit(f"{entry.question!r}: gap {gap:.2f}, got {answer!r}: train longer")
        least = min(least, gap)
    return least


def candidate(kind: str, corpus: Corpus, talk: Conversations) -> list[dict[str, str]]:
    """A random conversation of one kind, as chat messages."""
    first, second = talk.random.sample(corpus.entries, 2)
    user = {"role": "user", "content": first.question}
    before = [
        {"role": "user", "content": second.question},
        {"role": "assistant", "content": second.answer},
    ]
    match kind:
        case "known":
            return [user]
        case "system":
            return [{"role": "system", "content": talk.noise(8)}, user]
        case "multi-turn":
            return [*before, user]
        case "partial":
            return [{"role": "user", "content": talk.beginning()}]
        case "unknown":
            return [{"role": "user", "content": talk.noise(talk.random.randint(1, 9))}]
        case _:
            long = {"role": "system", "content": talk.noise(250)}
            return [long, *before, user]


def exact_prompts(corpus: Corpus, reference: Reference) -> tuple[list[dict[str, object]], float]:
    """(24 different prompts with their 64 greedy ids, least gap over all steps)."""
    talk = Conversations(corpus, reference.tokenizer, SEED)
    found: dict[str, dict[str, object]] = {}
    gaps: list[float] = []
    for kind in ("known", "system", "multi-turn", "partial", "unknown", "long"):
        wanted = len(found) + EXACT_PER_KIND
        for _ in range(200):
            text = reference.render(candidate(kind, corpus, talk))
            ids, gap = reference.generate(text, EXACT_TOKENS, stop=False)
            if gap >= MARGIN and text not in found:
                found[text] = {"kind": kind, "prompt_text": text, "output_ids": ids}
                gaps.append(gap)
            if len(found) == wanted:
                break
        else:
            raise SystemExit(f"too few {kind} prompts with a gap of {MARGIN}: train longer")
    return list(found.values()), min(gaps)


def write_known_answers(corpus: Corpus, target: Path, out: Path) -> None:
    """Check the saved target, then write the file; a failed check ends the program."""
    reference = Reference(target)
    answers_gap = check_answers(corpus, reference)
    exact, exact_gap = exact_prompts(corpus, reference)
    content = {
        "margin": {"wanted": MARGIN, "answers": answers_gap, "exact": exact_gap},
        "answers": [{"prompt": e.question, "answer": e.answer} for e in corpus.entries],
        "exact": exact,
    }
    out.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"answers {len(corpus.entries)}, least logit gap {answers_gap:.2f}")
    print(f"exact {len(exact)}, least logit gap {exact_gap:.2f}", flush=True)
