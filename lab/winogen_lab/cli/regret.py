"""`winogen lab regret`: how well the planner chooses, and other rules beside its model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from winogen.cli.convolution import read, takes
from winogen.cli.options import AS_JSON, ONLY, RESULTS, give

if TYPE_CHECKING:
    from winogen.tuning.layers import BenchLayer
    from winogen_lab.bench.regret import Candidate
    from winogen_lab.loops.planners import Comparison

EXAMPLE = "Example: winogen lab regret --layers vgg16 --results regret.json"

# What is compared for each value of --planner; "model" alone is the regret of all candidates.
_RULES = {
    "model": (),
    "kelefouras": ("model", "default", "kelefouras", "bandwidth"),
    "bandwidth": ("model", "default", "bandwidth"),
}


@takes("layout tolerance")
def regret(
    layers: str = typer.Option(
        "thesis27", metavar="SET|FILE", help="A layer set or a JSON file, as for bench."
    ),
    only: str = ONLY,
    threads: int = typer.Option(1, min=1, max=1024, help="Threads of every candidate."),
    within: float = typer.Option(
        1.6, min=1.0, help="Measure candidates predicted within this factor of the fastest."
    ),
    drawn: int = typer.Option(
        10, min=0, help="Measure so many of the others, too, drawn by a fixed seed."
    ),
    planner: str = typer.Option(
        "model",
        metavar="NAME",
        help="model, or a rule beside it for blocks of direct: kelefouras, bandwidth.",
    ),
    as_json: bool = AS_JSON,
    results: Path = RESULTS,
    **options: Any,
) -> None:
    """Measure candidates of the planner, layer by layer: what does its choice cost?

    Measured are those predicted to be near the fastest, and whatever is predicted the two best of
    every algorithm and some of all others.

    Its choice is compared with the best, which is what its rule would choose if it knew the
    measured times. The rule: the fastest within the tolerance; without one, an error beyond that of
    direct convolution has to save 18 % of the time, and as much for every further digit.

    With --planner kelefouras or bandwidth: which blocks of direct convolution does that rule choose
    by counting loads and bytes, which ones the cycle model, and how long do they take?
    """
    from rich.console import Console

    from winogen.errors import InvalidValue
    from winogen.tuning.chosen import chosen_layers
    from winogen_lab.bench.regret import summary, sweep

    asked = read(options)
    if planner not in _RULES:
        raise InvalidValue(f"planner: got {planner!r}; allowed: {', '.join(_RULES)}")
    chosen = chosen_layers(layers, only)
    if planner != "model":
        if threads != 1:
            raise InvalidValue(f"threads: got {threads}; allowed: 1 with --planner {planner}")
        if "tolerance" in asked:
            raise InvalidValue(
                f"tolerance: got {asked['tolerance']}; allowed: none with --planner {planner}"
            )
        _compare_rules(chosen, planner, asked.get("layout", "NCHW"), results, as_json)
        return
    console = Console(highlight=False, soft_wrap=True, quiet=as_json)
    regrets = []
    console.print(_ROW.format("layer", "chosen", "predicted ms", "ms", "best", "ms", "regret"))
    with console.status("") as status:
        sweeping = sweep(
            chosen, threads=threads, within=within, drawn=drawn, progress=status.update, **asked
        )
        for one in sweeping:
            regrets.append(one)
            first, best = one.candidates[0], one.best
            times = [
                f"{1e3 * s:.3f}" for s in (first.predicted_s, first.measured_s, best.measured_s)
            ]
            ways = _named(first), *times[:2], "same" if best is first else _named(best), times[2]
            console.print(_ROW.format(one.layer, *ways, f"{one.regret:.2f}"))
    totals = summary(regrets)
    document = {**totals, "layers": [one.to_dict() for one in regrets]}
    last = f"regret: median {totals['median']:.3f}, worst {totals['worst']:.3f}"
    give(document, results, as_json, lambda: console.print(last))


_ROW = "{:<30} {:<29} {:>12} {:>8}  {:<29} {:>8} {:>6}"


def _named(candidate: Candidate) -> str:
    tile = "" if candidate.tile is None else "x".join(map(str, candidate.tile))
    return f"{candidate.algorithm} {tile} {candidate.tag}".strip()


def _compare_rules(
    layers: Sequence[BenchLayer], planner: str, layout: str, results: Path | None, as_json: bool
) -> None:
    """Print what every planner chose for direct convolution, and its measured regret."""
    from rich.console import Console

    from winogen_lab.loops.planners import compare, summary

    names = _RULES[planner]
    console = Console(highlight=False, soft_wrap=True, quiet=as_json)
    console.print(_row_of("layer", "fastest", "ms", [(name, "regret") for name in names]))
    comparisons: list[Comparison] = []
    with console.status("") as status:
        for one in compare(layers, names, layout=layout, progress=status.update):
            comparisons.append(one)
            ways = [(str(one.chosen[name]), f"{one.regret(name):.2f}") for name in names]
            seconds = f"{1e3 * one.fastest.measured_s:.3f}"
            console.print(_row_of(one.layer, str(one.fastest), seconds, ways))
    totals = summary(comparisons)
    document = {"planners": totals, "layers": [one.to_dict() for one in comparisons]}
    last = "\n".join(
        f"{name}: median {regret['median']:.3f}, worst {regret['worst']:.3f}"
        for name, regret in totals.items()
    )
    give(document, results, as_json, lambda: console.print(last))


def _row_of(layer: str, fastest: str, seconds: str, ways: list[tuple[str, str]]) -> str:
    columns = "".join(f"  {blocks:<16} {regret:>6}" for blocks, regret in ways)
    return f"{layer:<30} {fastest:<16} {seconds:>8}{columns}"
