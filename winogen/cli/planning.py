"""`winogen calibrate` and `winogen lab regret`: the planner's machine, and how well it chooses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from winogen.lab.bench.regret import Candidate
    from winogen.records import Machine

CALIBRATE_EXAMPLE = "Example: winogen calibrate --rates-only"
REGRET_EXAMPLE = "Example: winogen lab regret --layers vgg16 --json regret.json"


def calibrate(
    seconds: float = typer.Option(0.2, min=0.01, help="How long to measure each rate."),
    rates_only: bool = typer.Option(
        False, "--rates-only", help="Measure rates, some seconds; leave the model's constants."
    ),
    layers: str = typer.Option(
        None,
        metavar="SET|FILE",
        help="Fit the constants to a layer set or a JSON file instead of to a sample.",
    ),
    only: str = typer.Option(None, metavar="TEXT", help="Only layers with this in their names."),
    forget: bool = typer.Option(
        False, "--forget", help="Forget this machine: the next plan measures it."
    ),
) -> None:
    """Measure this machine for the planner; plans of later processes follow it.

    First the rates of its arithmetic and caches. Then, in about a minute, calls of all algorithms,
    to which the constants of the kernels' model are fitted; what is left unexplained is printed.
    """
    from dataclasses import asdict

    from winogen.cli.options import finite
    from winogen.cli.progress import working
    from winogen.errors import InvalidValue
    from winogen.toolchain import cache_dir, machine
    from winogen.toolchain.calibrate import calibrated

    finite("seconds", seconds)
    for name, value in (("layers", layers), ("only", only)):
        if value is not None and (rates_only or forget or (name == "only" and layers is None)):
            raise InvalidValue(f"{name}: got {value!r}; allowed: where constants are fitted to it")
    folder = cache_dir()
    if forget:
        machine.forget(folder)
        typer.echo(f"{'machine':<18} {machine.described(folder)}")
        return
    with working("measuring this machine"):
        rates, signs = calibrated(seconds=seconds)
    measured = rates if rates_only else _fitted(rates, layers, only)
    kept = machine.save(measured, folder, signs=signs, rates=None if rates_only else rates)
    typer.echo(f"kept in {kept}")
    if signs:
        typer.echo(f"disturbed: {', '.join(signs)}; better measured in a quiet moment")
    for name, value in {**asdict(measured), **asdict(measured.costs)}.items():
        if name == "costs":
            continue
        typer.echo(f"{name:<18} {value:.4g}" if isinstance(value, float) else f"{name:<18} {value}")


def _fitted(machine: Machine, layers: str | None, only: str | None) -> Machine:
    """The machine with constants that fit it, and how well they do."""
    from winogen.cli.progress import telling
    from winogen.tuning.fit import fit, measure
    from winogen.tuning.layers import chosen_layers

    with telling("measuring") as say:
        chosen = None if layers is None else chosen_layers(layers, only)
        found = fit(measure(machine, chosen, progress=say), machine)
    typer.echo(f"{'|log(predicted / measured)|':<28} {'calls':>5} {'before':>7} {'after':>7}")
    count = sum(calls for calls, _, _ in found.families.values())
    rows = [*found.families.items(), ("all", (count, found.before, found.after))]
    for name, (calls, before, after) in rows:
        typer.echo(f"  {f'median, {name}':<26} {calls:>5} {before:>7.3f} {after:>7.3f}")
    return found.machine


def regret(
    layers: str = typer.Option(
        "thesis27", metavar="SET|FILE", help="A layer set or a JSON file, as for bench."
    ),
    only: str = typer.Option(None, metavar="TEXT", help="Only layers with this in their names."),
    threads: int = typer.Option(1, min=1, max=1024, help="Threads of every candidate."),
    layout: str = typer.Option("NCHW", metavar="NCHW|NHWC", help="NCHW or NHWC."),
    tolerance: float = typer.Option(None, help="Error that suffices, as for bench: 1e-5."),
    within: float = typer.Option(
        1.6, min=1.0, help="Measure candidates predicted within this factor of the fastest."
    ),
    planner: str = typer.Option(
        "model",
        metavar="NAME",
        help="model, or a rule beside it for blocks of direct: kelefouras, bandwidth.",
    ),
    json: Path = typer.Option(None, help="Write all that was predicted and measured here."),
) -> None:
    """Measure every candidate of the planner, layer by layer: what does its choice cost?

    Its choice is compared with the best, which is what its rule would choose if it knew the
    measured times. The rule: the fastest within the tolerance; without one, the fastest that is as
    accurate as direct convolution, if that takes at most 18 % longer.

    With --planner kelefouras or bandwidth: which blocks of direct convolution does that rule choose
    by counting loads and bytes, which ones the cycle model, and how long do they take?
    """
    from rich.console import Console

    from winogen.cli.planners import RULES, compare_rules
    from winogen.errors import InvalidValue
    from winogen.lab.bench.regret import summary, sweep
    from winogen.lab.bench.report import save
    from winogen.tuning.layers import chosen_layers

    if layout not in ("NCHW", "NHWC"):
        raise InvalidValue(f"layout: got {layout!r}; allowed: NCHW, NHWC")
    if planner not in RULES:
        raise InvalidValue(f"planner: got {planner!r}; allowed: {', '.join(RULES)}")
    chosen = chosen_layers(layers, only)
    if planner != "model":
        if threads != 1:
            raise InvalidValue(f"threads: got {threads}; allowed: 1 with --planner {planner}")
        if tolerance is not None:
            raise InvalidValue(
                f"tolerance: got {tolerance}; allowed: none with --planner {planner}"
            )
        compare_rules(chosen, planner, layout, json)
        return
    console = Console(highlight=False, soft_wrap=True)
    regrets = []
    console.print(_ROW.format("layer", "chosen", "predicted ms", "ms", "best", "ms", "regret"))
    with console.status("") as status:
        for one in sweep(
            chosen,
            threads=threads,
            layout=layout,
            tolerance=tolerance,
            within=within,
            progress=status.update,
        ):
            regrets.append(one)
            first, best = one.candidates[0], one.best
            times = [
                f"{1e3 * s:.3f}" for s in (first.predicted_s, first.measured_s, best.measured_s)
            ]
            ways = _named(first), *times[:2], "same" if best is first else _named(best), times[2]
            console.print(_ROW.format(one.layer, *ways, f"{one.regret:.2f}"))
    totals = summary(regrets)
    console.print(f"regret: median {totals['median']:.3f}, worst {totals['worst']:.3f}")
    if json is not None:
        save({**totals, "layers": [one.to_dict() for one in regrets]}, json)


_ROW = "{:<30} {:<29} {:>12} {:>8}  {:<29} {:>8} {:>6}"


def _named(candidate: Candidate) -> str:
    tile = "" if candidate.tile is None else "x".join(map(str, candidate.tile))
    return f"{candidate.algorithm} {tile} {candidate.tag}".strip()
