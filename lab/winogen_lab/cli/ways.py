"""`winogen lab ways`: layers by several ways, what plans say of each and how long each takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from winogen.cli.convolution import read, takes
from winogen.cli.options import AS_JSON, ONLY, RESULTS, give
from winogen.cli.outputs import check_outputs

EXAMPLE = "Example: winogen lab ways thesis27 --only 56x56 --timed"


@takes("layout tile")
def ways(
    layers: str = typer.Argument(
        None,
        metavar="[SET|FILE]",
        help="A layer set as for bench, or a JSON file of layers (default: thesis27).",
    ),
    only: str = ONLY,
    nets: str = typer.Option(
        None,
        metavar="NAMES",
        help="Instead: the convolutions of whole nets, by im2col, directly and as planned, beside "
        "their other layers in PyTorch; names as for bench --nets.",
    ),
    compare: str = typer.Option(
        "algorithms",
        metavar="algorithms|edges|borders|filters",
        help="The best plan of every algorithm; or the usual plan with partial tiles left to "
        "direct convolution; or with every kind of border; or every algorithm, tile and points "
        "with filters of every type: which are worth having by bytes, error and time.",
    ),
    timed: bool = typer.Option(False, "--timed", help="Measure them, in turns, on one thread."),
    rounds: int = typer.Option(20, min=1, max=10_000, help="With --timed: turns of every way."),
    markdown: bool = typer.Option(False, "--markdown", help="Print tables as Markdown."),
    plot: Path = typer.Option(
        None, help="With --nets: draw fast, direct and other layers (.png, .svg, .pdf)."
    ),
    as_json: bool = AS_JSON,
    results: Path = RESULTS,
    **options: Any,
) -> None:
    """Show multiplications, packed filters and workspace of layers computed in several ways.

    With --timed the times, too: the least of several turns, and how their ratios rank with the
    size of the map over the pairs of channels, HW/CM.
    """
    from winogen.errors import InvalidValue
    from winogen.progress import telling
    from winogen.tuning.chosen import chosen_layers
    from winogen.tuning.layers import DEFAULT_SET
    from winogen_lab.bench import filter_ways
    from winogen_lab.bench import ways as found
    from winogen_lab.bench.ways_tables import render

    if compare not in _COMPARED:
        raise InvalidValue(f"compare: got {compare!r}; allowed: {', '.join(_COMPARED)}")
    check_outputs(results, plot)
    asked = read(options)
    if nets is not None:
        given = {"layers": layers, "only": only, "tile": asked.get("tile")}
        for name, value in given.items():
            if value is not None:
                raise InvalidValue(f"{name}: got {value!r}; allowed: none with --nets")
        _nets(nets, asked.get("layout", "NCHW"), rounds, markdown, plot, results, as_json)
        return
    if plot is not None:
        raise InvalidValue(f"plot: got {str(plot)!r}; allowed: a file with --nets")
    tile = asked.get("tile")
    if tile is not None:
        tile = (tile, tile) if isinstance(tile, int) else tuple(tile)
    chosen = chosen_layers(layers or DEFAULT_SET, only)
    for layer in chosen:
        if layer.transposed or layer.rank != 2:
            raise InvalidValue(f"layers: got {layer.name}; allowed: ordinary layers of two axes")
    settings: dict[str, Any] = {
        "layout": asked.get("layout", "NCHW"),
        "tile": tile,
        "rounds": rounds if timed else 0,
    }
    with telling("measuring" if timed else "planning") as say:
        if compare == "filters":
            rows = filter_ways.compare_filters(chosen, **settings, say=say)
        else:
            rows = found.compare(chosen, compare, **settings, say=say)
    if not rows:
        raise InvalidValue(f"layers: got none with tiles; allowed: some, to compare {compare}")
    document = {"compare": compare, "layers": rows}
    table = filter_ways.render if compare == "filters" else render
    give(document, results, as_json, lambda: typer.echo(table(rows, markdown)))


_COMPARED = ("algorithms", "edges", "borders", "filters")


def _nets(
    names: str,
    layout: str,
    rounds: int,
    markdown: bool,
    plot: Path | None,
    results: Path | None,
    as_json: bool,
) -> None:
    """Measure the convolutions of nets and what lies between, and print them."""
    from winogen.progress import telling
    from winogen_lab.bench.net_ways import compare_nets, render, save_parts
    from winogen_lab.nets import chosen_nets

    with telling("measuring") as say:
        rows = compare_nets(chosen_nets([names], say), layout=layout, rounds=rounds, say=say)
    if plot is not None:
        save_parts(rows, plot)
    give({"nets": rows}, results, as_json, lambda: typer.echo(render(rows, markdown)), "nets")
