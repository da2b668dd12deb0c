"""A picture of a run.

    python -m trainer.plot metrics.jsonl curve.png

Needs matplotlib, which the trainer's image does not carry (its package's extra `plot` does).
"""

from __future__ import annotations

import argparse
import math
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainer import history

PARTS = {
    "passes": "#2563eb", "update": "#7ea6f4", "data": "#2a9d5c", "wait": "#c9ced6", "evaluate": "#ea7317",
    "save": "#c0392b",
}  # fmt: skip
"""Of a step's time (stopwatch.py), from the bottom up, and their colours."""
INK, BLUE, ORANGE, GREY, RED = "#22272e", "#2563eb", "#ea7317", "#8b949e", "#c0392b"


def draw(run: history.History, title: str, target: Path) -> None:
    """Loss over steps: training, held-out, the text's unigram entropy, restarts. Below it tokens per second, and where
    the time of a step went."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style: Any = {
        "font.family": "DejaVu Sans", "font.size": 10, "text.color": INK, "axes.edgecolor": "#d0d7de",
        "axes.labelcolor": INK, "xtick.color": GREY, "ytick.color": GREY, "axes.spines.top": False,
        "axes.spines.right": False, "axes.grid": True, "grid.color": "#eaeef2", "grid.linewidth": 0.8,
    }  # fmt: skip
    with plt.rc_context(style):
        figure, (above, middle, below) = plt.subplots(
            3, 1, figsize=(10, 7.8), dpi=160, sharex=True, height_ratios=(4, 1, 1.2), layout="constrained"
        )
        steps, losses = list(run.losses), list(run.losses.values())
        above.plot(
            steps, losses, color=BLUE, linewidth=2, label="training loss", solid_capstyle="round", zorder=3
        )
        if run.held_out:
            places = sorted(run.held_out)
            above.plot(
                places, [run.held_out[step] for step in places], color=ORANGE, linewidth=1.4, linestyle="--",
                marker="o", markersize=5, markerfacecolor="white", markeredgewidth=1.6, label="held-out loss", zorder=4,
            )  # fmt: skip
        entropy = run.starts[-1].get("unigram_entropy") if run.starts else None
        if entropy:
            above.axhline(entropy, color=GREY, linewidth=1.2, linestyle=(0, (5, 4)), zorder=2)
            above.annotate(
                f"unigram entropy of the text, {entropy:.2f} nats", (1, entropy), xycoords=("axes fraction", "data"),
                xytext=(-4, 5), textcoords="offset points", ha="right", color=GREY, fontsize=9,
            )  # fmt: skip
        for number, start in enumerate(run.starts[1:]):
            for axes in (above, middle, below):
                axes.axvline(
                    start["step"], color=RED, linewidth=1.1, linestyle=":", zorder=1,
                    label="restart" if number == 0 and axes is above else None,
                )  # fmt: skip
            above.annotate(
                f"from step {start['step']} on {start['world']}",
                (start["step"], 1),
                xycoords=("data", "axes fraction"),
                xytext=(3, -3),
                textcoords="offset points",
                color=RED,
                fontsize=8,
                va="top",
                rotation=90,
            )
        if losses:
            above.annotate(
                f"{losses[-1]:.3f}", (steps[-1], losses[-1]), xytext=(6, 0), textcoords="offset points", va="center",
                color=BLUE, fontweight="bold",
            )  # fmt: skip
            above.set_xlim(0, 1.07 * steps[-1])
            low, high = min([*losses, *run.held_out.values()]), max(losses)
            above.set_ylim(max(0.0, low - 0.12 * (high - low)), high + 0.08 * (high - low))
        above.set_ylabel("loss (nats per token)")
        above.set_title(title, loc="left", fontsize=13, fontweight="bold", pad=14)
        above.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 1))

        speeds = [run.steps[step]["tokens_per_second"] for step in steps]
        middle.fill_between(steps, speeds, color=BLUE, alpha=0.12, linewidth=0)
        middle.plot(steps, speeds, color=BLUE, linewidth=1.2)
        middle.set_ylim(0, 1.25 * max(speeds, default=1))
        middle.yaxis.set_major_formatter(
            lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
        )
        middle.set_ylabel("tokens/s")
        _split(below, run)
        below.set_xlabel("step")
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target)
        plt.close(figure)


def _split(axes: Any, run: history.History) -> None:
    """Seconds of a step by parts, one on the other, and what the slowest process computes without waiting."""
    known = {step: facts for step, facts in run.steps.items() if "seconds" in facts}
    parts = [name for name in PARTS if any(facts["seconds"].get(name) for facts in known.values())]
    heights = [[facts["seconds"].get(name, 0.0) for facts in known.values()] for name in parts]
    if parts:
        colours = [PARTS[name] for name in parts]
        axes.stackplot(list(known), heights, labels=parts, colors=colours, alpha=0.75, linewidth=0)
    slowest = {step: facts["ranks"]["compute"]["max"] for step, facts in known.items() if "ranks" in facts}
    if any(slowest.values()):
        axes.plot(
            list(slowest), list(slowest.values()), color=INK, linewidth=1, linestyle="--",
            label="slowest process, blocks forward",
        )  # fmt: skip
    if parts:
        axes.legend(
            frameon=False, fontsize=8, ncols=len(parts) + 1, loc="lower left", bbox_to_anchor=(0, 0.98)
        )
        highest = sorted(sum(column) for column in zip(*heights, strict=True))
        axes.set_ylim(
            0, 1.3 * highest[int(0.95 * (len(highest) - 1))]
        )  # one long save must not flatten the rest
    axes.set_ylabel("seconds of a step")


def caption(run: history.History, name: str) -> str:
    """`llama-local: loss 2.171 after 250 steps (perplexity 8.8)`"""
    if not run.losses:
        return f"{name}: no step was reported"
    last, loss = max(run.losses.items())
    times = f", started {len(run.starts)} times" if len(run.starts) > 1 else ""
    return f"{name}: loss {loss:.3f} (perplexity {math.exp(loss):.1f}) after {last} steps{times}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trainer.plot", description=__doc__.splitlines()[0])
    parser.add_argument("metrics", type=Path, help="metrics.jsonl of a run")
    parser.add_argument("picture", type=Path, help="PNG (or .svg, .pdf) to write")
    parser.add_argument("--name", help="name of the run; by default that of its folder")
    options = parser.parse_args()
    if not options.metrics.exists():
        print(f"{options.metrics}: no such file", file=sys.stderr)
        return 2
    if find_spec("matplotlib") is None:
        print(
            "trainer.plot needs matplotlib: pip install './trainer[plot]', or matplotlib itself",
            file=sys.stderr,
        )
        return 2
    run = history.read(options.metrics)
    draw(run, caption(run, options.name or options.metrics.resolve().parent.name), options.picture)
    print(options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
