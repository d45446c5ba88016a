"""`winogen compress`: what low ranks would cost and lose in a model, and the model with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from winogen.cli.outputs import check_outputs

_DRAWN = ("products:1.25x", "products:1.5x", "products:2x", "products:3x", "products:4x")

EXAMPLE = (
    "Example: winogen compress model.onnx --budget products:2x --data inputs.npz -o small.onnx"
)


def compress(
    model: Path = typer.Argument(
        metavar="MODEL", help="An ONNX file of float32 numbers, or a .pt2 of torch.export."
    ),
    budget: str = typer.Option(
        ...,
        metavar="BUDGET",
        help="2x: half the predicted time of the convolutions; products:2x, params:2x: half of "
        "direct's products, half the weights; 10ms: so much predicted time; 36dB: the least time "
        "with this PSNR.",
    ),
    data: Path = typer.Option(
        ...,
        metavar="DATA",
        help="Inputs like those that it is for, five or more: a .npy whose first axis counts "
        "them, a .npz with such an array for each input, or a folder with a .npy for each; or a "
        "folder of pictures (.png, .jpg).",
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="File to write, of the same kind; not there yet."
    ),
    threads: int = typer.Option(
        None, min=1, max=1024, help="Threads that times are predicted for (default: all CPUs)."
    ),
    size: str = typer.Option(
        None, metavar="HxW", help="Of pictures: they are scaled to cover it, the middle is cut out."
    ),
    mean: str = typer.Option(
        None, metavar="R,G,B", help="Taken from pixels from 0 to 1; one number for grey pictures."
    ),
    std: str = typer.Option(None, metavar="R,G,B", help="What pixels are then divided by."),
    measure: bool = typer.Option(
        False, "--measure", help="Also measure what layers take, as they were and as two."
    ),
    plot: Path = typer.Option(
        None,
        help="Draw PSNR against predicted time, of this budget and of products:1.25x to 4x "
        "(.png, .svg, .pdf).",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Write a model whose convolutions are a column and a row of taps where that pays.

    Beside every layer stands the time that it takes as it was, by exact Winograd if that is
    fastest. Every fifth input is held out, to say how good the result is.
    """
    import json

    from winogen.errors import InvalidValue
    from winogen.files import output_path
    from winogen.lowrank.budget import CompressionBudget
    from winogen.lowrank.compressing import compressed, split
    from winogen.lowrank.subject import subject_of
    from winogen.onnx.pictures import Pictures
    from winogen.onnx.samples import read_samples
    from winogen.progress import counting

    CompressionBudget.of(budget)
    pictures = Pictures.of(size, mean, std)
    if output.exists():
        raise InvalidValue(f"output: got {output}, which is there; allowed: a new file")
    output_path(output)
    subject = subject_of(model)
    subject.check_output(output)
    check_outputs(None, plot)
    samples, held_out = split(list(read_samples(subject.proto, data, pictures)))
    with counting("compressing") as step:
        result, report = compressed(
            subject, samples, held_out, budget=budget, threads=threads, measure=measure, step=step
        )
        subject.save(result, output)
    if plot is not None:
        with counting("compressing for the picture") as step:
            _draw(plot, report, subject, samples, held_out, threads=threads, step=step)
    typer.echo(json.dumps(report.to_dict(), indent=1) if as_json else report)
    if not as_json:
        typer.echo(output)


def _draw(
    plot: Path, report: Any, subject: Any, samples: Any, held_out: Any, **options: Any
) -> None:
    """Draw what was made beside what other budgets make; a model may not allow all of them."""
    from contextlib import suppress

    from winogen.errors import InvalidValue
    from winogen.lowrank.compressing import compressed
    from winogen.lowrank.plot import PlotPoint, save_plot

    points = []
    for budget in (one for one in _DRAWN if one != report.budget):
        with suppress(InvalidValue):
            _, other = compressed(subject, samples, held_out, budget=budget, **options)
            points.append(PlotPoint(budget, other.total("seconds")[1], other.psnr))
    exact, after = report.total("seconds")
    save_plot(points, exact, PlotPoint(report.budget, after, report.psnr), plot)
