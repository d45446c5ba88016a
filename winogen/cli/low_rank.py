"""`winogen lab low-rank`: what low ranks do to a trained net, the same for all layers or chosen."""

from __future__ import annotations

import typer

EXAMPLE = "Example: winogen lab low-rank --net animevideov3-x2"


def low_rank(
    net: str = typer.Option("animevideov3-x2", metavar="NET", help="A trained net of `bench`."),
    factors: str = typer.Option(
        "1.5,2,3,4", metavar="C,C", help="How many times fewer products than direct convolution."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Measure the PSNR of a net whose convolutions have low ranks.

    Layers are fitted to the upper left 48x48 of the net's picture and measured on the lower right.
    """
    import json

    from winogen.conv import arguments
    from winogen.errors import InvalidValue
    from winogen.lab.low_rank import measure, table
    from winogen.progress import counting

    try:
        numbers = [float(text) for text in factors.split(",")]
    except ValueError:
        raise InvalidValue(f"factors: got {factors!r}; allowed: numbers above 1") from None
    for number in numbers:
        if arguments.positive("factors", number, "numbers above 1") <= 1:
            raise InvalidValue(f"factors: got {number:g}; allowed: numbers above 1")
    with counting("compressing") as step:
        found = measure(net, numbers, step)
    typer.echo(json.dumps(found, indent=1) if as_json else table(found))
