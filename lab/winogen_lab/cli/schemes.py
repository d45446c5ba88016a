"""`winogen lab schemes`: products of nets by Winograd, low ranks and both."""

from __future__ import annotations

import typer

from winogen.cli.options import AS_JSON, integers, print_json

EXAMPLE = (
    "Example: winogen lab schemes alexnet,vgg16,googlenet,resnet50 --factor 4\n\n"
    "Example: winogen lab schemes vgg16 --ranks 4,12,40,40,50,60,70,80,100,110,80,78,78"
)


def schemes(
    nets: str = typer.Argument(
        "alexnet,vgg16,googlenet,resnet50", metavar="[NETS]", help="Names with commas between."
    ),
    factor: float = typer.Option(
        3.0, metavar="C", help="How many times fewer products layers of low rank have."
    ),
    ranks: str = typer.Option(
        None, metavar="R,R,...", help="Instead, of one net: a rank for each layer, in its order."
    ),
    tile: int = typer.Option(
        4, min=1, max=16, help="Outputs of a tile along an axis: the m of F(m, r)."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Count how many times fewer products nets have by Winograd, by low rank, and by both.

    Of the convolutions, each as often as a net has it: Maji's Tables 4.1 and 4.2, and with ranks
    Tables 3.2, 3.4 and 3.7, layer by layer. Nothing is measured.
    """
    from winogen.cli.engine import read_layers
    from winogen.conv import arguments
    from winogen.errors import InvalidValue
    from winogen_lab import schemes as counts

    if arguments.positive("factor", factor, "a number from 1 on") < 1:
        raise InvalidValue(f"factor: got {factor:g}; allowed: a number from 1 on")
    names = list(dict.fromkeys(name.strip() for name in nets.split(",")))
    wanted = None if ranks is None else integers("ranks", ranks, *range(1, 1000))
    if wanted is not None and len(names) > 1:
        raise InvalidValue(f"ranks: got them for {len(names)} nets; allowed: for one")
    found = {name: counts.counted(read_layers(name), tile, factor, wanted) for name in names}
    if as_json:
        print_json({
            "kind": "counts",
            "tile": tile,
            "nets": {name: {"factors": counts.factors(rows),
                            "layers": [row.to_dict() for row in rows]}
                     for name, rows in found.items()},
        })  # fmt: skip
    elif len(names) == 1:
        typer.echo(counts.render_layers(found[names[0]]))
    else:
        typer.echo(counts.render_nets(found))
