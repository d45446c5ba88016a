"""`winogen lab growth`: memory of transformed filters and of tiles over the size of the tile."""

from __future__ import annotations

from pathlib import Path

import typer

from winogen.cli.options import AS_JSON, integers, print_json

EXAMPLE = "Example: winogen lab growth --kernels 3,5 --plot growth.png"


def growth(
    kernels: str = typer.Option("3,5", metavar="K,...", help="Sizes of square kernels, 2 to 15."),
    most: int = typer.Option(8, min=1, max=64, help="Outputs of the largest tile along an axis."),
    plot: Path = typer.Option(None, help="Draw it (.png, .svg, .pdf)."),
    as_json: bool = AS_JSON,
) -> None:
    """Print how transformed filters and tiles of F(m×m, r×r) grow with m.

    As multiples of the filters and of the map. Tiles are also the products of an output. Exact.
    """
    from winogen.cli.outputs import check_outputs
    from winogen.columns import aligned
    from winogen.errors import InvalidValue
    from winogen_lab.fronts.growth import growth as rows_of
    from winogen_lab.fronts.growth import save_growth

    sizes = integers("kernels", kernels, *range(1, 9))
    for size in sizes:
        if not 2 <= size <= 15:
            raise InvalidValue(f"kernels: got {size}; allowed: from 2 to 15")
    check_outputs(None, plot)
    rows = rows_of(sizes, most)
    if plot is not None:
        save_growth(sizes, most, plot)
    if as_json:
        figures = [{"m": row.tile, "r": row.taps, "filters": float(row.filters**2),
                    "tiles": float(row.tiles**2)}
                   for row in rows]  # fmt: skip
        print_json({"kind": "growth", "tiles": figures})
        return
    lines = [["tile", "filters", "tiles"]]
    for row in rows:
        name = f"F({row.tile}x{row.tile}, {row.taps}x{row.taps})"
        numbers = (row.filters**2, row.tiles**2)
        lines.append([name, *(f"{float(number):.3g}" for number in numbers)])
    typer.echo("\n".join(aligned(lines, left=1)))
