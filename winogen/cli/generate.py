"""`winogen generate`: one layer as a pair of C files that need nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

EXAMPLE = (
    "Example: winogen generate --input 1,64,56,56 --weight 64,64,3,3 --padding 1 "
    "--algorithm mcmr --isa avx2 -o vgg"
)


def generate(
    input: str = typer.Option(metavar="N,C,H,W", help="Shape of the input."),
    weight: str = typer.Option(metavar="M,C,KH,KW", help="Shape of the weights."),
    output: Path = typer.Option(..., "--output", "-o", metavar="DIR", help="Folder to write to."),
    padding: str = typer.Option(None, help="P, or PH,PW, or same, or valid (default: 0)."),
    stride: str = typer.Option(None, help="S, or SH,SW (default: 1)."),
    groups: int = typer.Option(None, help="Groups of channels (default: 1)."),
    algorithm: str = typer.Option(
        None, help="auto, direct, im2col, winograd2d, winograd1d or mcmr (default: auto)."
    ),
    tile: str = typer.Option(None, help="m, or mh,mw: outputs of one Winograd tile."),
    points: str = typer.Option(None, help="Interpolation points, such as 0,1,-1,1/2,-2,inf."),
    moduli: str = typer.Option(None, help="Polynomials instead, such as x,x-1,x+1,x^2+1,inf."),
    order: str = typer.Option(
        None, help="How transforms add: program, huffman, pairwise or naive (default: program)."
    ),
    isa: str = typer.Option(
        None, help="avx512, avx2, sse2, neon or generic (default: what this CPU has)."
    ),
    dtype: str = typer.Option(None, help="float32 or float64 (default: float32)."),
    layout: str = typer.Option(None, help="NCHW or NHWC (default: NCHW)."),
    activation: str = typer.Option(None, help="relu (default: none)."),
    threads: int = typer.Option(None, min=1, help="Threads to cut the work for (default: 1)."),
    name: str = typer.Option(None, help="Prefix of files and functions (default: from shapes)."),
) -> None:
    """Write one layer as a .c and a .h that compile with `cc -O3` and nothing else."""
    from winogen.conv.standalone import command_line, standalone

    arguments: dict[str, Any] = {
        "input": input,
        "weight": weight,
        "padding": padding,
        "stride": stride,
        "groups": groups,
        "algorithm": algorithm,
        "tile": tile,
        "points": points,
        "moduli": moduli,
        "order": order,
        "isa": isa,
        "dtype": dtype,
        "layout": layout,
        "activation": activation,
        "threads": threads,
        "name": name,
    }
    options = {key: value for key, value in arguments.items() if value is not None}
    for key in ("padding", "stride", "tile"):
        if options.get(key) not in (None, "same", "valid"):
            numbers = _integers(key, options[key])
            options[key] = numbers[0] if len(numbers) == 1 else numbers
    shapes = [_integers(key, options.pop(key), 4) for key in ("input", "weight")]
    if layout == "NHWC":  # --input is N,C,H,W whatever the order in memory
        shapes[0] = (*shapes[0][:1], *shapes[0][2:], *shapes[0][1:2])
    files = standalone(*shapes, command=command_line(arguments), **options)
    output.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (output / file).write_text(text)
        typer.echo(output / file)


def _integers(name: str, text: str, count: int | None = None) -> tuple[int, ...]:
    from winogen.errors import InvalidValue

    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or (count and len(numbers) != count):
        allowed = f"{count or 'one or two'} integers with commas between them"
        raise InvalidValue(f"{name}: got {text!r}; allowed: {allowed}")
    return numbers
