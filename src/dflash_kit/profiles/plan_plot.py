"""The plan as a picture: a GPU's memory, and speed against acceptance."""

from pathlib import Path

from dflash_kit.errors import InputError
from dflash_kit.profiles.memory import GIB
from dflash_kit.profiles.plan import Plan


def draw(plan: Plan, file: Path) -> None:
    """Write the picture to `file`; its ending names the format.

    Raises:
        InputError: matplotlib is missing, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("--plot: needs matplotlib: pip install 'dflash-kit[report]'") from None
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    memory, speed = figure.subplots(1, 2, width_ratios=(1, 2))
    bottom = 0.0
    for name, size in plan.memory.parts().items():
        height = size / GIB
        memory.bar(0, height, bottom=bottom, label=f"{name} {height:.1f}")
        bottom += height
    memory.set(ylabel="GiB of one GPU", xticks=[], xlim=(-0.6, 2.2), title=_title(plan))
    memory.legend(loc="center right", fontsize="small", reverse=True)
    block = plan.rooflines[0].block
    for index, roofline in enumerate(plan.rooflines):
        colour = f"C{index}"
        name = roofline.all_reduce.name
        ends = [1.0, float(block)]
        speed.plot(ends, [roofline.dflash_tok_s(x) for x in ends], colour, label=f"DFlash, {name}")
        plain = roofline.plain_tok_s()
        speed.axhline(plain, color=colour, linestyle="--", label=f"no draft, {name}")
        speed.plot([roofline.break_even()], [plain], "o", color=colour)
    speed.axvline(plan.acceptance, color="grey", linestyle=":", label="acceptance asked for")
    speed.set(xlabel="acceptance (tokens a verify pass)", ylabel="tok/s of one user, at most")
    speed.set_title("points: break-even")
    speed.set_xlim(1, block)
    speed.set_ylim(bottom=0)
    speed.legend(fontsize="small")
    try:
        figure.savefig(file, dpi=110)
    except (OSError, ValueError) as error:
        raise InputError(f"--plot {file}: cannot be written: {error}") from None


def _title(plan: Plan) -> str:
    return f"{plan.profile}, {plan.point}\n{plan.memory.kv_tokens} tokens of KV cache"
