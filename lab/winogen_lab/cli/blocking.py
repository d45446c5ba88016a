"""`winogen lab blocking`: the buffers of a string of loops, and what comes into caches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from winogen.cli.convolution import INPUT, WEIGHT, read, takes
from winogen.cli.options import AS_JSON, ISA, RESULTS, give, integers

if TYPE_CHECKING:
    from winogen.conv.problem import Problem
    from winogen_lab.loops.blocking import Loop, Sizes
    from winogen_lab.loops.caches import Cache

EXAMPLE = (
    'Example: winogen lab blocking "Fw Fh X=8 Y=8 C=16 K=16 C K X Y" --input 1,64,56,56 '
    "--weight 64,64,3,3 --padding 1 --simulate"
)
_PLAIN = ("packed", "NHWC", "NCHW")
_PAGE = 4096


@takes("stride padding", panels=True)
def blocking(
    string: str = typer.Argument(
        None,
        metavar="[STRING]",
        help="Loops from the innermost to the outermost: Fw, Fh, X, Y, C, K, N, with sizes of "
        "blocks as in X=8; a letter alone covers the rest. Default: the nest that the planner by "
        "bytes chooses.",
    ),
    input: str = INPUT,
    weight: str = WEIGHT,
    caches: str = typer.Option(
        "32K:8,1M:16",
        metavar="SIZE:WAYS:POLICY,...",
        help="Caches from the inside out; 0 ways: no sets; lru, srrip, brrip or drrip.",
    ),
    pages: int = typer.Option(64, min=1, help="Pages of 4 KiB that the TLB knows."),
    simulate: bool = typer.Option(
        False, "--simulate", help="Also walk the nest through these caches: 50 ns a product."
    ),
    layout: str = typer.Option(
        "packed", metavar="NAME", help="How operands lie in the simulation: packed, NHWC, NCHW."
    ),
    hilbert: bool = typer.Option(
        False, "--hilbert", help="Simulate the two outermost loops, X and Y, along Hilbert's curve."
    ),
    isa: str = ISA,
    threads: int = typer.Option(1, min=1, help="Without a string: threads that share a loop."),
    as_json: bool = AS_JSON,
    results: Path = RESULTS,
    **options: Any,
) -> None:
    """Print the buffers of a string of loops, what comes into them, and their re-fetch rates.

    Buffers are as in "A systematic approach to blocking convolutional neural networks". Beside
    them is what a cache of the same loops gets from behind itself: by the size of what one turn of
    a loop touches, and simulated.
    """
    from winogen.cli.outputs import check_outputs
    from winogen.conv import arguments
    from winogen.conv.problem import Layer, plane_of
    from winogen_lab.loops import blocking as model
    from winogen_lab.loops.caches import parse_caches

    check_outputs(results, None)
    arguments.choice("layout", layout, _PLAIN)
    chosen = parse_caches(caches)
    layer = Layer.of(integers("weight", weight, 4), "float32", layout="NHWC", **read(options))
    batch, channels, *plane = integers("input", input, 4)
    problem = layer.problem((batch, *plane, channels))
    kernel, output, stride = map(plane_of, (layer.kernel, problem.output_size, layer.stride))
    sizes = model.Sizes(batch, channels, layer.filters, kernel, output, stride)
    chosen_nest = None
    if string is None:
        string, chosen_nest = _planned(problem, isa, threads)
    loops = model.parse(string, sizes)
    document = {
        "kind": "blocking",
        "string": string,
        "chosen": chosen_nest,
        "products": sizes.products,
        "buffers": [
            {**vars(one), "loop": str(one.loop),
             "turn": model.turn(loops[: loops.index(one.loop)], sizes),
             "pages": -(-one.bytes // _PAGE)}
            for one in model.buffers(loops, sizes)
        ],
        "tlb_reach": pages * _PAGE,
        "caches": _caches(loops, sizes, chosen, layout if simulate or hilbert else None,
                          hilbert),
    }  # fmt: skip
    give(document, results, as_json, lambda: _show(document), "buffers")


def _planned(problem: Problem, isa: str | None, threads: int) -> tuple[str, dict[str, Any]]:
    """The nest of the rule of the source as a string, and what it shares among threads."""
    from winogen.conv import arguments
    from winogen.records import TARGETS
    from winogen.toolchain import host_target
    from winogen.toolchain.machine import current
    from winogen_lab.loops.planners import nest_by_bytes

    target = host_target() if isa is None else TARGETS[arguments.choice("isa", isa, tuple(TARGETS))]
    found = nest_by_bytes(problem, target, current(), threads)
    layer, tile = found.layer, found.tile
    rows, pixels = min(tile.rows, layer.output[0]), min(layer.block_pixels, layer.output[1])
    most = min(tile.filters, layer.filters)
    filters = min(layer.block_filters, layer.filters)
    string = f"X={pixels} K={filters} Fw Fh C K={most} X Y={rows} K Y N"
    chosen = {"tile": tile.name(layer), "shared": found.shared, "threads": threads,
              "parts": found.parts}  # fmt: skip
    return string, chosen


def _caches(
    loops: list[Loop], sizes: Sizes, caches: list[Cache], layout: str | None, hilbert: bool
) -> list[dict[str, Any]]:
    from winogen_lab.loops.blocking import behind, simulated

    rows = [
        {**vars(cache), "lam": cache.lam(), "by_turns": behind(loops, sizes, cache.bytes)}
        for cache in caches
    ]
    if layout is not None:
        for row, seen in zip(rows, simulated(loops, sizes, caches, layout, hilbert)):
            row["simulated"] = seen
    return rows


def _show(document: dict[str, Any]) -> None:
    """Print a table of buffers, and one of caches."""
    from winogen.columns import aligned

    typer.echo(f"{document['string']}: {document['products'] / 1e6:,.1f} million products\n")
    if document["chosen"]:
        typer.echo(
            "tile {tile}, d0 = {parts}; threads: {threads}, which share loop {shared}\n".format(
                **document["chosen"]
            )
        )
    reach = document["tlb_reach"]
    rows = [["buffer", "of", "inside of", "bytes", "pages", "one turn", "words in", "re-fetch"]]
    for one in document["buffers"]:
        far = "*" if one["bytes"] > reach else ""
        rows.append([one["name"], one["operand"], one["loop"], f"{one['bytes']:,}",
                     f"{one['pages']:,}{far}", f"{one['turn']:,}", f"{one['words']:,}",
                     f"{one['rate']:.4g}"])  # fmt: skip
    typer.echo("\n".join(aligned(rows, left=3)))
    typer.echo(f"* more than the TLB reaches: {reach:,} bytes\n")
    rows = [["cache", "policy", "Lam's side", "MB from behind", "inputs", "weights", "outputs"]]
    for one in document["caches"]:
        size = f"{one['bytes']:,} / {one['ways']}"
        side = f"{one['lam']:.1f}"
        rows.append([size, "", side, "by turns", *_mb(one["by_turns"])])
        if "simulated" in one:
            rows.append(["", one["policy"], "", "simulated", *_mb(one["simulated"])])
    typer.echo("\n".join(aligned(rows, left=2)))


def _mb(moved: dict[str, int]) -> list[str]:
    return [f"{size / 1e6:,.3f}" for size in moved.values()]
