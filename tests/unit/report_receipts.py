"""Receipts of a fleet that does not exist, as the smoke suite and the bench write them."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dflash_kit.smoke.checks import CHECKS, Tier, required
from dflash_kit.smoke.receipt import Host, Receipt, to_json
from dflash_kit.smoke.speed import Percentiles, Round, SpeedPoint
from dflash_kit.smoke.speed_gate import LEAST_ROUNDS
from dflash_kit.verdicts import Record, Verdict, overall

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
PATCHES = ["draft-ahead.patch", "padded-rows-reset.patch", "strict-mode.patch"]


def speed(
    seed: int,
    step_ms: float = 20.0,
    accept: float | None = 4.0,
    rounds: int = LEAST_ROUNDS,
    spread: float = 0.01,
) -> list[SpeedPoint]:
    """Rounds at 1, 8 and 32 requests at a time, `spread` apart."""
    chance = random.Random(seed)
    points = []
    for concurrency, slower in ((1, 1.0), (8, 1.6), (32, 3.4)):
        made = []
        for _ in range(rounds):
            tpot = step_ms * slower / (accept or 1.0) * (1 + spread * chance.uniform(-1, 1))
            half = 60 * slower * (1 + spread * chance.uniform(-1, 1))
            made.append(
                Round(
                    tok_s=1000 * concurrency / tpot * 0.93,
                    tpot_ms=tpot,
                    accept_length=accept,
                    ttft_ms=Percentiles(p50=half, p90=2 * half, p99=2.6 * half),
                    itl_ms=Percentiles(p50=tpot, p90=1.5 * tpot, p99=2.2 * tpot),
                    e2e_ms=Percentiles(p50=256 * tpot, p90=300 * tpot, p99=330 * tpot),
                    input_tokens=4000,
                    output_tokens=6144,
                    queue_ms=2.0 * slower,
                )
            )
        points.append(SpeedPoint(concurrency=concurrency, prompts=24, rounds=made))
    return points


def receipt(
    name: str = "gpu1",
    minutes: float = 0,
    release: str = "0.5.11-dflash.2",
    wrong: dict[str, tuple[Verdict, str, str]] | None = None,
    **changes: Any,
) -> Receipt:
    """A receipt of so many minutes after noon; `wrong`: code -> verdict, measured, next step."""
    codes = required(Tier.QUICK)
    checks = [
        Record(code=code, verdict=Verdict.PASS, measured="as wanted", wanted=CHECKS[code].says)
        for code in codes
    ]
    for check in checks:
        if found := (wrong or {}).get(check.code):
            check.verdict, check.measured, check.next_step = found
    made = Receipt(
        id=f"{name}-{minutes:g}",
        time=NOON + timedelta(minutes=minutes),
        url="http://engine:30000",
        release=release,
        profile="b300-x8",
        point="latency",
        deployment=f"{release}-b300-x8-latency-0123456789",
        image="sha256:" + ("1" if release.endswith("1") else "2") * 64,
        required=codes,
        identity={"release": release, "patches": list(PATCHES), "tree": release[-1] * 64},
        engine={"version": "0.5.11", "tp_size": 8},
        host=Host(
            name=name,
            system="Linux-6.8.0-x86_64",
            cpus=128,
            inside_image=True,
            driver="580.65.06",
            gpus=["NVIDIA B300 SXM6 AC"] * 8,
        ),
        seconds=31.5,
        figures={"accept_length": 4.0, "accept_rate": 0.43, "tok_s_c1": 201.5, "tok_s_c4": 640.0},
        checks=checks,
        verdict=overall(checks),
    )
    return made.model_copy(update=changes)


def put(folder: Path, *receipts: Receipt) -> Path:
    """Write them as a rollout keeps them: HOST/NAME.json. The folder."""
    for each in receipts:
        file = folder / each.host.name / f"{each.id}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(to_json(each))
    return folder


def changed(made: Receipt, **fields: Any) -> str:
    """A receipt's text with other fields, whether they are right or not."""
    return json.dumps(json.loads(to_json(made)) | fields)
