"""`winogen calibrate`: this machine measured for the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from winogen.cli.options import AS_JSON, print_json

if TYPE_CHECKING:
    from winogen.records import Machine
    from winogen.tuning.fit import Fit
    from winogen.tuning.layers import BenchLayer

EXAMPLE = "Example: winogen calibrate --rates-only"


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
    forget: bool = typer.Option(
        False, "--forget", help="Forget this machine: the next plan measures it."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Measure this machine for the planner; plans of later processes follow it.

    First the rates of its arithmetic and caches. Then, in about a minute, calls of all algorithms,
    to which the constants of the kernels' model are fitted; what is left unexplained is printed.
    """
    from dataclasses import asdict

    from winogen.cli.options import finite
    from winogen.errors import InvalidValue
    from winogen.progress import working
    from winogen.toolchain import cache_dir, machine
    from winogen.toolchain.calibrate import calibrated
    from winogen.tuning.chosen import chosen_layers

    finite("seconds", seconds)
    if layers is not None and (rates_only or forget):
        raise InvalidValue(f"layers: got {layers!r}; allowed: where constants are fitted to it")
    folder = cache_dir()
    if forget:
        machine.forget(folder)
        described = machine.described(folder)
        if as_json:
            print_json({"machine": described})
        else:
            typer.echo(f"{'machine':<18} {described}")
        return
    chosen = None if layers is None else chosen_layers(layers)
    with working("measuring this machine"):
        rates, signs = calibrated(seconds=seconds)
    fit = None if rates_only else _fitted(rates, chosen)
    measured = rates if fit is None else fit.machine
    kept = machine.save(measured, folder, signs=signs, rates=None if rates_only else rates)
    if as_json:
        left = {"before": fit.before, "after": fit.after, "families": fit.families} if fit else None
        print_json(measured, kept=str(kept), disturbed=signs, unexplained=left)
        return
    if fit is not None:
        typer.echo(_unexplained(fit))
    typer.echo(f"kept in {kept}")
    if signs:
        typer.echo(f"disturbed: {', '.join(signs)}; better measured in a quiet moment")
    for name, value in {**asdict(measured), **asdict(measured.costs)}.items():
        if name == "costs":
            continue
        typer.echo(f"{name:<18} {value:.4g}" if isinstance(value, float) else f"{name:<18} {value}")


def _fitted(machine: Machine, layers: list[BenchLayer] | None) -> Fit:
    """The machine with constants that fit it, and how well they do."""
    from winogen.progress import telling
    from winogen.tuning.fit import fit, measure

    with telling("measuring") as say:
        return fit(measure(machine, layers, progress=say), machine)


def _unexplained(found: Fit) -> str:
    """What the constants leave unexplained, by kind of kernel."""
    lines = [f"{'|log(predicted / measured)|':<28} {'calls':>5} {'before':>7} {'after':>7}"]
    count = sum(calls for calls, _, _ in found.families.values())
    rows = [*found.families.items(), ("all", (count, found.before, found.after))]
    for name, (calls, before, after) in rows:
        lines.append(f"  {f'median, {name}':<26} {calls:>5} {before:>7.3f} {after:>7.3f}")
    return "\n".join(lines)
