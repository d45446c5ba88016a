"""`winogen calibrate` and `winogen regret`: what the planner knows, and how well it chooses."""

from __future__ import annotations

from pathlib import Path

import typer

CALIBRATE_EXAMPLE = "Example: winogen calibrate"
REGRET_EXAMPLE = "Example: winogen regret --layers vgg16 --json regret.json"


def calibrate(
    seconds: float = typer.Option(0.2, min=0.01, help="How long to measure each rate."),
    forget: bool = typer.Option(False, "--forget", help="Go back to the default machine."),
) -> None:
    """Measure this machine for the planner; plans of later processes follow it."""
    from dataclasses import asdict

    from winogen.build import cache_dir
    from winogen.conv import machine

    folder = cache_dir()
    if forget:
        machine.forget(folder)
        found = machine.Machine()
    else:
        from winogen.conv.calibrate import calibrated

        found = calibrated(seconds=seconds)
        typer.echo(f"kept in {machine.save(found, folder)}")
    for name, value in asdict(found).items():
        typer.echo(
            f"{name:<18} {value:.4g}" if isinstance(value, float) else f"{name:<18} {value:,}"
        )


def regret(
    layers: str = typer.Option("thesis27", help="A layer set or a JSON file, as for bench."),
    only: str = typer.Option(None, metavar="TEXT", help="Only layers with this in their names."),
    threads: int = typer.Option(1, min=1, max=1024, help="Threads of every candidate."),
    layout: str = typer.Option("NCHW", help="NCHW or NHWC."),
    within: float = typer.Option(1.6, min=1.0, help="Candidates predicted within this factor."),
    rounds: int = typer.Option(7, min=1, help="Rounds in which every candidate takes a turn."),
    json: Path = typer.Option(None, help="Write all that was predicted and measured here."),
) -> None:
    """Measure every candidate of the planner, layer by layer: what does its choice cost?"""
    from rich.console import Console
    from rich.table import Table

    from winogen.bench.layers import chosen_layers
    from winogen.bench.regret import summary, sweep
    from winogen.bench.report import save
    from winogen.cli.progress import stderr
    from winogen.errors import InvalidValue

    if layout not in ("NCHW", "NHWC"):
        raise InvalidValue(f"layout: got {layout!r}; allowed: NCHW, NHWC")
    with stderr().status("") as status:
        found = sweep(
            chosen_layers(layers, only),
            threads=threads,
            layout=layout,
            rounds=rounds,
            within=within,
            progress=lambda done, total, name: status.update(f"{done}/{total} {name}"),
        )
    table = Table("layer", "chosen", "predicted ms", "ms", "fastest", "ms", "regret", "candidates")
    for one in found:
        chosen, best = one.candidates[0], one.best
        table.add_row(
            one.layer,
            _named(chosen),
            f"{1e3 * chosen.predicted_s:.3g}",
            f"{1e3 * chosen.measured_s:.3g}",
            _named(best),
            f"{1e3 * best.measured_s:.3g}",
            f"{one.regret:.2f}",
            str(len(one.candidates)),
        )
    console = Console(highlight=False)
    console.print(table)
    totals = summary(found)
    console.print(f"regret: median {totals['median']:.3f}, worst {totals['worst']:.3f}")
    if json is not None:
        save({**totals, "layers": [one.to_dict() for one in found]}, json)


def _named(candidate) -> str:
    if candidate.tile is None:
        return candidate.algorithm
    return f"{candidate.algorithm} {'x'.join(map(str, candidate.tile))}"
