"""The engine from outside: its processes, its ranks and its log."""

import pytest
import requests

from dflash_kit.errors import KitError, Undetermined
from dflash_kit.profiles.models import NO_ACCELERATOR
from dflash_kit.releases import engine_data
from dflash_kit.smoke import engine_log, watch

SHOWN = 3


@pytest.mark.check("processes")
def test_processes(check, suite, container):
    wanted = "the same processes as before, none a zombie"
    try:
        before = suite.at_start()
        pattern = engine_data.load(suite.wanted.release).processes
        problems, _ = watch.differences(before, container.look, pattern)
    except Undetermined as error:
        check.undetermined("not seen", wanted, str(error))
    if before.running and not before.processes:
        check.undetermined("none seen", wanted, "let the smoke test see the host's /proc")
    check(
        ok=not problems,
        measured="; ".join(problems[:SHOWN]) or f"{len(before.processes)} processes, the same",
        wanted=wanted,
        next_step="see the engine's log and dmesg: something ended them",
    )


@pytest.mark.check("ranks")
def test_ranks(check, suite, info, arguments, container):
    asked, reported = arguments.get("tp-size", 1), info.get("tp_size", "not reported")
    wanted, measured = f"{asked} of {asked}", f"tp_size {reported}"
    next_step = "restart the engine; see its log for what ended a rank"
    if reported == asked:
        try:
            seen = container.look().processes.values()
        except Undetermined as error:
            check.undetermined("processes not seen", wanted, str(error))
        pattern = engine_data.load(suite.wanted.release).scheduler
        alive = [p for p in watch.matching(seen, pattern) if not p.is_zombie]
        measured = f"{len(alive)} of {asked}"
    check(ok=measured == wanted, measured=measured, wanted=wanted, next_step=next_step)


@pytest.mark.check("log")
def test_log(check, suite, engine, container, request):
    log = engine_data.load(suite.wanted.release).log
    wanted = "no forbidden line, every required one"
    try:
        lines = container.log()
        profile, dflash = map(request.getfixturevalue, ("profile", "dflash_wanted"))
    except (KitError, requests.RequestException) as error:
        # An engine that no longer answers does not say what its log is held to.
        check.undetermined("not judged", wanted, str(error))
    gpu = profile.hardware.accelerator != NO_ACCELERATOR
    found = engine_log.judge(lines, log, engine.keys, dflash=dflash, gpu=gpu)
    if found.lacking and found.cut and not found.wrong:
        check.undetermined(
            f"lacks {found.lacking[0]}, and its beginning is gone",
            wanted,
            "restart the engine, or raise the size that docker keeps of its log",
        )
    problems = found.wrong + [f"lacks {line}" for line in found.lacking]
    check(
        ok=not problems,
        measured="; ".join(problems[:SHOWN]) or f"{found.judged} lines judged in {len(lines)}",
        wanted=wanted,
        next_step="; ".join(found.next_steps[:SHOWN]) or "see the engine's log since its start",
    )
