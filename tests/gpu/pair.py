"""The trained tiny pair on a GPU: exact answers, real acceptance, a draft with experts, misfits."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from checks import SIZES
from engine import LARGEST_GRAPH, Engine
from release import Release
from trees import PATCHED

# Of the release on a CPU, over the exact prompts: what `dflash-kit smoke` measures there.
CPU_TOKENS_A_VERIFY = 7.4927
EXPERT_DRAFT = {"SGLANG_EXTERNAL_MODEL_PACKAGE": "expert_draft"}
STRICT = {"DFLASH_KIT_STRICT": "1"}
_TOKENS = 64
# transformers generates the pair's exact answers again, on the GPU.
_REFERENCE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
torch.set_default_device("cuda")
from pathlib import Path
from answers import EXACT_TOKENS, Reference
pair = Path(sys.argv[1])
reference = Reference(pair / "target")
reference.model.cuda()
exact = json.loads((pair / "known_answers.json").read_text())["exact"]
texts = [each["prompt_text"] for each in exact]
print(json.dumps([reference.generate(text, EXACT_TOKENS, stop=False)[0] for text in texts]))
"""


def arguments(pair: Path, draft: Path | None = None) -> list[str]:
    """What serves the pair; `draft` instead of its own."""
    return [
        *("--model-path", str(pair / "target"), "--context-length", "1024"),
        *("--speculative-algorithm", "DFLASH"),
        *("--speculative-draft-model-path", str(draft or pair / "draft")),
    ]


def exact_prompts(pair: Path) -> tuple[list[str], list[list[int]]]:
    """The pair's exact prompts and the ids that transformers' generate gave on a CPU."""
    exact = json.loads((pair / "known_answers.json").read_text())["exact"]
    return [each["prompt_text"] for each in exact], [each["output_ids"] for each in exact]


def reference(pair: Path, release: Release) -> list[list[int]]:
    """The same ids, made here on the GPU by the release's transformers; takes no engine."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _REFERENCE, str(pair)],
        env=release.environment(PATCHED),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"transformers: {done.stderr[-2000:]}")
    ids: list[list[int]] = json.loads(done.stdout.splitlines()[-1])
    return ids


def answers(engine: Engine, pair: Path) -> dict[str, Any]:
    """How many answers are exact alone, in one batch and mixed, and the acceptance of each."""
    texts, wanted = exact_prompts(pair)
    alone = [engine.generate([text], max_new_tokens=_TOKENS)[0] for text in texts]
    batch = engine.tokens(texts, max_new_tokens=_TOKENS)

    def mixed(number: int) -> bool:
        which, length = number % len(texts), 3 + 7 * number % 61
        got = engine.tokens([texts[which]], max_new_tokens=length)[0]
        return bool(got == wanted[which][:length])

    with ThreadPoolExecutor(12) as pool:
        right = sum(pool.map(mixed, range(96)))
    return {
        "prompts": len(texts),
        "exact alone": sum(a["output_ids"] == w for a, w in zip(alone, wanted, strict=True)),
        "exact in a batch": sum(b == w for b, w in zip(batch, wanted, strict=True)),
        "exact mixed, of 96": right,
        "tokens a verify": _acceptance(alone),
        "verify passes": [each["meta_info"]["spec_verify_ct"] for each in alone],
    }


def acceptance(engine: Engine, pair: Path, sizes: Sequence[int] = SIZES) -> dict[str, float]:
    """Tokens a verify pass over the exact prompts, so many requests at a time."""
    texts, _ = exact_prompts(pair)
    found = {}
    for size in sizes:
        groups = [texts[at : at + size] for at in range(0, len(texts), size)]
        found[f"C={size}"] = _acceptance(
            [a for group in groups for a in engine.generate(group, max_new_tokens=_TOKENS)]
        )
    return found


def _acceptance(answers: Sequence[dict[str, Any]]) -> float:
    tokens: int = sum(each["meta_info"]["completion_tokens"] for each in answers)
    passes: int = sum(each["meta_info"]["spec_verify_ct"] for each in answers)
    return round(tokens / passes, 4)


def expert_draft(pair: Path, out: Path) -> Path:
    """The pair's draft, to be run as expert_draft.model runs it."""
    return _changed_draft(
        pair, out, lambda config: config | {"architectures": ["DFlashExpertDraftModel"]}
    )


def _changed_draft(
    pair: Path, out: Path, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> Path:
    shutil.copytree(pair / "draft", out)
    config = out / "config.json"
    config.write_text(json.dumps(change(json.loads(config.read_text()))))
    return out


def _renamed_tensor(pair: Path, out: Path) -> Path:
    """One tensor of the draft under another name of the same length."""
    shutil.copytree(pair / "draft", out)
    weights = out / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content.replace(b'"norm.weight"', b'"nerm.weight"', 1))
    return out


def misfits(pair: Path, work: Path) -> dict[str, list[str]]:
    """Arguments of starts that strict mode must refuse, by the word that the refusal says."""
    few = ("--max-running-requests", str(LARGEST_GRAPH))
    block = _changed_draft(pair, work / "block", lambda config: config | {"block_size": 4})
    return {
        "block_size": [*arguments(pair, block), *few, "--speculative-num-draft-tokens", "8"],
        "nerm.weight": [*arguments(pair, _renamed_tensor(pair, work / "renamed")), *few],
        "--max-running-requests": arguments(pair),
    }
