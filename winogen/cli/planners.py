"""`winogen lab regret --planner`: rules that count loads and bytes, beside the cycle model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winogen.lab.loops.planners import Comparison
    from winogen.tuning.layers import BenchLayer

# What is compared for each value of --planner; "model" alone is the regret of all candidates.
RULES = {
    "model": (),
    "kelefouras": ("model", "default", "kelefouras", "bandwidth"),
    "bandwidth": ("model", "default", "bandwidth"),
}


def compare_rules(
    layers: Sequence[BenchLayer], planner: str, layout: str, json: Path | None
) -> None:
    """Print what every planner chose for direct convolution, and its measured regret."""
    from rich.console import Console

    from winogen.lab.bench.report import save
    from winogen.lab.loops.planners import compare, summary

    names = RULES[planner]
    console = Console(highlight=False, soft_wrap=True)
    console.print(_row("layer", "fastest", "ms", [(name, "regret") for name in names]))
    comparisons: list[Comparison] = []
    with console.status("") as status:
        for one in compare(layers, names, layout=layout, progress=status.update):
            comparisons.append(one)
            ways = [(str(one.chosen[name]), f"{one.regret(name):.2f}") for name in names]
            seconds = f"{1e3 * one.fastest.measured_s:.3f}"
            console.print(_row(one.layer, str(one.fastest), seconds, ways))
    totals = summary(comparisons)
    for name, regret in totals.items():
        console.print(f"{name}: median {regret['median']:.3f}, worst {regret['worst']:.3f}")
    if json is not None:
        save({"planners": totals, "layers": [one.to_dict() for one in comparisons]}, json)


def _row(layer: str, fastest: str, seconds: str, ways: list[tuple[str, str]]) -> str:
    columns = "".join(f"  {blocks:<16} {regret:>6}" for blocks, regret in ways)
    return f"{layer:<30} {fastest:<16} {seconds:>8}{columns}"
