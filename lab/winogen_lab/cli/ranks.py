"""`winogen lab ranks`: how good a net stays if one layer has a low rank, layer by layer."""

from __future__ import annotations

from pathlib import Path

import typer

from winogen.cli.options import AS_JSON, print_json

EXAMPLE = "Example: winogen lab ranks digits --plot ranks.svg"


def ranks(
    net: str = typer.Argument(
        "digits", metavar="NET", help="A trained net: digits, residual, tiny or another of `bench`."
    ),
    plot: Path = typer.Option(None, help="Draw a line for each layer (.png, .svg, .pdf)."),
    as_json: bool = AS_JSON,
) -> None:
    """Measure a trained net against the rank of each layer alone, all others being as they were.

    By singular values of its filters alone; fitted to what it gets, as `winogen compress` does; and
    pruned to as many products, filters of the least magnitudes first. Quality is accuracy in
    percent or PSNR in dB, on pictures that nothing was fitted to.
    """
    from winogen.cli.outputs import check_outputs
    from winogen.progress import counting
    from winogen_lab.ranks import measure, save_plot, table

    check_outputs(None, plot)
    with counting("trying ranks") as step:
        found = measure(net, step)
    if plot is not None:
        save_plot(found, plot)
    if as_json:
        print_json(found)
    else:
        typer.echo(table(found))
