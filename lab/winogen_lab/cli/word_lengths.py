"""`winogen lab word-lengths`: the fewest bits of a fast algorithm that keep a net good."""

from __future__ import annotations

from pathlib import Path

import typer

from winogen.cli.options import AS_JSON, integers, print_json

EXAMPLE = "Example: winogen lab word-lengths animevideov3 --tiles 2,4 -o bits.svg"


def word_lengths(
    nets: list[str] = typer.Argument(
        None, metavar="NET", help="Trained nets; animevideov3, digits and residual if none."
    ),
    tiles: str = typer.Option("2,4,6", metavar="M,...", help="Outputs of a tile along an axis."),
    loss: float = typer.Option(
        1.0, help="Quality that may be lost beside int8 direct convolution: dB, or % of accuracy."
    ),
    room: float = typer.Option(
        1.0, help="By what values may be larger than those that shifts are chosen for, 1 to 16."
    ),
    results: Path = typer.Option(
        None, help="File for results: run the same again to go on after a stop."
    ),
    plot: Path = typer.Option(None, "--plot", "-o", help="Draw curves (.png, .svg, .pdf)."),
    as_json: bool = AS_JSON,
) -> None:
    """Find the fewest bits of products, transforms and sums that keep a net as good as int8 does.

    Layers are computed in integers of 8 bits, directly and by every algorithm of the catalog whose
    coefficients are fractions, in words that are shortened: one kind alone, then all three at once.
    """
    from winogen.cli.outputs import check_outputs
    from winogen.conv import arguments
    from winogen.progress import telling
    from winogen_lab.nets.word_lengths import table
    from winogen_lab.nets.word_lengths import word_lengths as search

    sizes = integers("tiles", tiles, *range(1, 9))
    arguments.positive("loss", loss, "a number above 0")
    check_outputs(None, plot)
    with telling("searching") as say:
        document = search(nets or (), sizes, loss, results, say, room)
    if as_json:
        print_json(document)
    else:
        typer.echo(table(document))
    if plot is not None:
        from winogen_lab.nets.word_plot import save_plot

        save_plot(document, plot)
