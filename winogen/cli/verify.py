"""`winogen verify`: whether somebody's bilinear algorithm computes what it should."""

from __future__ import annotations

import json

import typer

EXAMPLE = (
    "Example: winogen verify strassen.toml\n\n"
    "Example: winogen derive 4 3 --format json > f43.json; winogen verify f43.json"
)
REFUSED = 1  # exit status


def verify(
    file: str = typer.Argument(
        ..., metavar="FILE", help="TOML, or JSON by its name, as that of `winogen derive`."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of lines."),
) -> None:
    """Prove a bilinear algorithm: products of matrices, polynomials or complex numbers,
    convolutions, any tensor; by formulas or by three matrices.

    A wrong one is refused with the first wrong coefficient, and exit status 1. The file says which
    map, such as map = "matrix product 2x2x2", and how: formulas = "m1 = a11*(b12 - b22)...", or u,
    v, w. What was read is exact; see docs/algorithms.md.
    """
    from winogen.algebra import read_file
    from winogen.errors import VerificationError

    algorithm = read_file(file)
    try:
        algorithm.verify()
    except VerificationError as error:
        wrong = {"right": False, "map": algorithm.map.name, "wrong": str(error)}
        typer.echo(json.dumps(wrong, indent=1) if as_json else f"wrong: {error}")
        raise typer.Exit(REFUSED) from None
    direct = len({(j, k) for _, j, k in algorithm.map.tensor})
    if as_json:
        counts = {"products": algorithm.products, "definition": direct,
                  "additions": algorithm.additions, "written": algorithm.written}  # fmt: skip
        typer.echo(json.dumps({"right": True, "map": algorithm.map.name, **counts}, indent=1))
        return
    written = "" if algorithm.written is None else f"; {algorithm.written} as written"
    typer.echo(
        f"right: {algorithm.map.name}\n"
        f"  products   {algorithm.products}, the definition has {direct}\n"
        f"  additions  {algorithm.additions} row by row{written}"
    )
