"""`winogen fixed`: which F(m, r) a processor of integers computes with fewest products."""

from __future__ import annotations

import typer

from winogen.cli.options import AS_JSON, integers, print_json

EXAMPLE = "Example: winogen fixed 4 3 --channels 910 --no-wrapping"


def fixed(
    m: int = typer.Argument(help="Outputs of one tile, along an axis."),
    r: int = typer.Argument(help="Taps of the filter, along an axis."),
    bits: str = typer.Option(
        "8", metavar="B|B,F", help="Of inputs and filters, which have a sign."
    ),
    channels: int = typer.Option(1, help="Channels whose products are summed."),
    operands: int = typer.Option(16, help="Bits of the factors of products."),
    sums: int = typer.Option(32, help="Bits of sums: 32, or 64 where there are such (SMLALD)."),
    wrapping: bool = typer.Option(
        True, help="Sums are modulo 2^sums on the way; or they saturate, and have to fit."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Plan F(m, r) for integers: the points or moduli of fewest products whose widths fit.

    Beside them are those of the catalog, and why they are not taken: bits of the operands of
    products, exact and by interval arithmetic, and the most channels.
    """
    from winogen.codegen.fixed_planner import plan
    from winogen.progress import working

    numbers = integers("bits", bits, 1, 2)
    both = numbers[0], numbers[-1]
    with working(f"searching for an F({m}, {r}) whose widths fit"):
        made = plan(m, r, *both, channels, operands=operands, sums=sums, wrapping=wrapping)
        text, document = str(made), made.to_dict()
    if as_json:
        print_json(document)
    else:
        typer.echo(text)
