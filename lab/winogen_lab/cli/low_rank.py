"""`winogen lab low-rank`: what low ranks do to a trained net, and how fast layers become."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from winogen.cli.options import ONLY

if TYPE_CHECKING:
    from winogen.tuning.layers import BenchLayer

EXAMPLE = "Example: winogen lab low-rank --layers vgg16 --factors 2,3"


def low_rank(
    net: str = typer.Option(
        None, metavar="NET", help="A trained net of `bench`; animevideov3-x2 if nothing is named."
    ),
    layers: str = typer.Option(
        None, metavar="SET|FILE", help="Instead: time layers of a set or a JSON file."
    ),
    only: str = ONLY,
    factors: str = typer.Option(
        "1.5,2,3,4", metavar="C,C", help="How many times fewer products than direct convolution."
    ),
    rivals: bool = typer.Option(
        False, "--rivals", help="Also Tucker-2, CP (with tensorly), depthwise and pruned layers."
    ),
    picture: str = typer.Option(
        "hopper", metavar="NAME", help="Of a net: hopper, or scikit-learn's china or flower."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Measure what layers of low rank lose and gain.

    Of a net whose convolutions all have low ranks: the PSNR. Its layers are fitted to the upper
    left 48x48 of its picture and measured on the lower right.

    Of layers by themselves: the time of both stages on one thread, direct and by Winograd, beside
    direct convolution, the exact algorithm that is fastest, the filters that pruning leaves at as
    many products, and what the machine promises.
    """
    import json

    from winogen.conv import arguments
    from winogen.errors import InvalidValue
    from winogen.progress import counting
    from winogen.tuning.chosen import chosen_layers

    if layers is not None and net is not None:
        raise InvalidValue("layers: got a set and --net; allowed: one of them")
    if only is not None and layers is None:
        raise InvalidValue(f"only: got {only!r} without --layers; allowed: with a set of layers")
    try:
        numbers = [float(text) for text in factors.split(",")]
    except ValueError:
        raise InvalidValue(f"factors: got {factors!r}; allowed: numbers above 1") from None
    for number in numbers:
        if arguments.positive("factors", number, "numbers above 1") <= 1:
            raise InvalidValue(f"factors: got {number:g}; allowed: numbers above 1")
    if layers is not None:
        typer.echo(_of_layers(chosen_layers(layers, only), numbers, rivals, as_json))
        return
    from winogen_lab.low_rank import measure, table

    with counting("compressing") as step:
        found = measure(net or "animevideov3-x2", numbers, step, rivals, picture)
    typer.echo(json.dumps(found, indent=1) if as_json else table(found))


def _of_layers(layers: list[BenchLayer], factors: list[float], rivals: bool, as_json: bool) -> str:
    """Measure layers by themselves; return what to print."""
    import json

    from winogen.progress import counting
    from winogen_lab import low_rank_rivals, low_rank_times

    with counting("measuring") as step:
        rows = low_rank_times.compare(layers, factors, step)
        others = [
            {"layer": layer.name, "factor": factor, **row}
            for layer in (layers if rivals else ())
            for factor in factors
            for row in low_rank_rivals.of_layer(layer, factor)
        ]
    if as_json:
        found = {"kind": "layers of low rank", "rows": [row.to_dict() for row in rows]}
        return json.dumps({**found, "rivals": others} if rivals else found, indent=1)
    text = low_rank_times.table(rows)
    return f"{text}\n\n{low_rank_rivals.table(others)}" if rivals else text
