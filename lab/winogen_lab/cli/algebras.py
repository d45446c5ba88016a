"""`winogen lab joined`, `winogen lab fourier`: layers by different algebra, stage by stage."""

from __future__ import annotations

import sys
from statistics import median
from typing import TYPE_CHECKING

import typer

from winogen.cli.options import LAYERS, integers

if TYPE_CHECKING:
    from winogen_lab.bench.algebras import Row

JOINED = "Example: winogen lab joined --size 56 --channels 256 --rounds 40"
FOURIER = "Example: winogen lab fourier thesis27 --only 56x56x256,14x14x512"
FEW = "vgg16-224x224x64,vgg16-56x56x256,vgg16-14x14x512,alexnet-27x27"


def joined(
    size: int = typer.Option(56, min=1, help="Of the square map, in pixels."),
    channels: int = typer.Option(256, min=1, help="Channels, and filters."),
    tiles: str = typer.Option("6,8", metavar="M,...", help="Outputs of tiles along each axis."),
    layout: str = typer.Option("NCHW", metavar="NCHW|NHWC", help="Of the arrays."),
    rounds: int = typer.Option(30, min=3, help="Rounds in which both take turns."),
) -> None:
    """Measure what joining complex products gains over nesting them, at the same moduli.

    3x3 layers by F(M x M, 3x3) with x^2 + 1, on one thread: both have the same transforms along
    each axis and the same blocks, and differ in what becomes of pairs. Times of the stages, and how
    many times as fast the joined ones are, with 95 % intervals.
    """
    from winogen.conv import arguments
    from winogen.progress import telling
    from winogen.toolchain.machine_file import cpu_name
    from winogen.tuning.layers import BenchLayer
    from winogen_lab.bench.algebras import MULTIPLY, compare, joined_and_nested
    from winogen_lab.bench.profile import STAGES

    arguments.choice("layout", layout, arguments.LAYOUTS[2])
    layer = BenchLayer.from_dict(
        {"name": f"{size}x{size}x{channels}", "input": [1, channels, size, size],
         "weight": [channels, channels, 3, 3], "padding": 1}
    )  # fmt: skip
    chosen = integers("tiles", tiles, *range(1, 9))
    pairs = [joined_and_nested(tile) for tile in chosen]
    typer.echo(f"{cpu_name()}, one thread, {layer.name} -> {channels}, {layout}")
    typer.echo(_PAIR.format("", "products", *STAGES[:3], "whole", "error"))
    for pair in pairs:
        with telling("measuring") as say:
            both, apart = compare(layer, pair, rounds, layout, say)
        for row, name in ((both, "joined"), (apart, "nested")):
            times = (*row.stages[:3], row.seconds)
            typer.echo(
                _PAIR.format(f"{row.name} {name}", f"{row.products:.3f}",
                             *(f"{1e3 * median(taken):.2f} ms" for taken in times),
                             f"{row.error:.1e}")
            )  # fmt: skip
        gains = [both.ratio(apart, stage) for stage in range(MULTIPLY + 2)] + [both.ratio(apart)]
        shown = (f"{middle:.3f} ({low:.3f}-{high:.3f})" for middle, low, high in gains)
        typer.echo(_PAIR.format("  nested / joined", f"{apart.products / both.products:.3f}",
                                *shown, "").rstrip())  # fmt: skip


_PAIR = "{:<18}{:>9}{:>22}{:>22}{:>22}{:>22}{:>9}"


def fourier(
    layers: str = LAYERS,
    only: str = typer.Option(
        FEW, metavar="TEXT,...", help="Only layers with one of these in their names."
    ),
    layout: str = typer.Option("NCHW", metavar="NCHW|NHWC", help="Of the arrays."),
    rounds: int = typer.Option(9, min=3, help="Rounds in which all take turns."),
) -> None:
    """Compare Winograd's tiles, Gauss FFT and regular FFT, as Zlateski et al. did in 2018.

    On one thread: multiplications for each output and channel, all instructions with those of
    transforms in the same units, operations of the element-wise stage for each byte that it moves,
    the times of the stages, and errors. Gauss FFT are Fourier tiles, whose complex products take
    three multiplications, by kernels in C; regular FFT takes four, by numpy.
    """
    from winogen.conv import arguments
    from winogen_lab.bench import products

    arguments.choice("layout", layout, arguments.LAYOUTS[2])
    if not products.is_child():  # numpy's products of matrices are to have one thread, too
        raise typer.Exit(products.with_threads("winogen", sys.argv[1:], 1))
    from winogen.progress import telling
    from winogen.toolchain.machine_file import cpu_name
    from winogen.tuning.chosen import chosen_layers
    from winogen_lab.bench.algebras import compare, of_layer

    chosen = [one for one in chosen_layers(layers) if any(t in one.name for t in only.split(","))]
    if not chosen:
        from winogen.errors import InvalidValue

        raise InvalidValue(f"only: got {only!r}; allowed: text in the name of a layer")
    ways = {layer: of_layer(layer) for layer in chosen}
    typer.echo(f"{cpu_name()}, one thread, {layout}")
    for layer in chosen:
        with telling("measuring") as say:
            rows = compare(layer, ways[layer], rounds, layout, say)
        typer.echo(f"\n{layer.name}")
        typer.echo(_WAY.format("", "products", "instructions", "op/byte", "filters", "input",
                               "multiply", "output", "whole", "error"))  # fmt: skip
        for row in rows:
            typer.echo(_described(row))
        best = min(rows, key=lambda row: median(row.seconds))
        typer.echo(f"fastest: {best.name}")


def _described(row: Row) -> str:
    times = (*row.stages[:3], row.seconds)
    shown = (median(taken) * 1e3 for taken in times)
    return _WAY.format(
        row.name, f"{row.products:.2f}", f"{row.instructions:.2f}", f"{row.intensity:.1f}",
        f"{row.filter_bytes / 2**20:.1f} MiB",
        *("" if taken != taken else f"{taken:.2f} ms" for taken in shown), f"{row.error:.1e}"
    )  # fmt: skip


_WAY = "{:<20}{:>9}{:>13}{:>9}{:>11}{:>11}{:>11}{:>11}{:>11}{:>9}"
