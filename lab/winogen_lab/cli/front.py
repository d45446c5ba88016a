"""`winogen lab front`: error against products per output, from direct to Fourier."""

from __future__ import annotations

from pathlib import Path

import typer

from winogen.cli.options import AS_JSON, RESULTS, give, integers

EXAMPLE = "Example: winogen lab front --kernels 3 --most 12 --plot front.png"


def front(
    kernels: str = typer.Option("3,5,7", metavar="K,...", help="Sizes of square kernels, 2 to 9."),
    most: int = typer.Option(16, min=6, max=32, help="Inputs of the largest tile along an axis."),
    trials: int = typer.Option(
        40, min=0, help="Tiles that are measured of each way on the front; 0: none."
    ),
    as_json: bool = AS_JSON,
    results: Path = RESULTS,
    plot: Path = typer.Option(None, help="Draw them (.png, .svg, .pdf)."),
) -> None:
    """Show which tiles are worth having: error against multiplications per output.

    Direct convolution, tiles by points, by moduli of degree 2 whose products are nested or joined,
    Fourier tiles and whole Fourier transforms. Errors of float32 are predicted, those of the best
    ways measured against float64, too.
    """
    from winogen.cli.outputs import check_outputs
    from winogen.errors import InvalidValue
    from winogen.progress import telling
    from winogen_lab.fronts.front import fronts, render

    sizes = integers("kernels", kernels, *range(1, 9))
    for size in sizes:
        if not 2 <= size <= min(9, most - 1):
            raise InvalidValue(f"kernels: got {size}; allowed: from 2 to 9, less than --most")
    check_outputs(results, plot)
    with telling("estimating") as say:
        document = fronts(sizes, most, trials, say)
    give(document, results, as_json, lambda: typer.echo(render(document)), "kernels")
    if plot is not None:
        from winogen_lab.fronts.front_plot import save_plot

        save_plot(document, plot)
