"""`winogen tolerance`: how far the outputs of a kernel may be from the exact ones."""

from __future__ import annotations

import typer

from winogen.cli.options import AS_JSON, print_json

EXAMPLE = (
    "Example: winogen tolerance 4 3 --channels 64\n\n"
    "Example: winogen tolerance 6 3 --points 0,1,-1,1/2,-1/2,2,-2,inf --dtype float16 --json"
)


def tolerance(
    m: int = typer.Argument(help="Outputs of one tile; 1: direct convolution."),
    r: int = typer.Argument(help="Taps of the filter."),
    points: str = typer.Option(None, metavar="P,P,...", help="Interpolation points, as of derive."),
    channels: int = typer.Option(1, min=1, help="Channels whose products are summed."),
    dtype: str = typer.Option("float32", metavar="TYPE", help="Of products and sums."),
    two_axes: bool = typer.Option(False, "--2d", help="Tiles of two axes, nested."),
    as_json: bool = AS_JSON,
) -> None:
    """Print the tolerance for a test of a kernel: predicted errors, and a bound for any data."""
    from winogen.algebra import cook_toom
    from winogen.rounding.tiles import Direct
    from winogen.rounding.tolerances import tolerance as allowed

    algorithm = Direct(1, r) if m == 1 else cook_toom(m, r, points)
    dims = 2 if two_axes else 1
    found = allowed(algorithm, dtype=dtype, channels=channels, dims=dims)
    if as_json:
        print_json({**found.to_dict(), "lines": found.lines()})
        return
    typer.echo(
        f"mean     {found.mean:.3g}   predicted mean |error|, normal data of variance 1\n"
        f"largest  {found.largest:.3g}   predicted largest |error|, the same data\n"
        f"relative {found.relative:.3g}   the same over max |y| of a layer\n"
        f"bound    {found.factor:.3g}   over sum max |x| max |g| of the channels: any data"
    )
    for language, line in found.lines().items():
        typer.echo(f"{language:<8} {line}")
