"""`winogen generate`: one layer as a pair of C files that need nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from winogen.cli.options import ACTIVATION_WORDS, integers, parsed_activation, single

EXAMPLE = (
    "Example: winogen generate --input 1,64,56,56 --weight 64,64,3,3 --padding 1 "
    "--algorithm mcmr --isa avx2 -o vgg"
)


def generate(
    input: str = typer.Option(metavar="N,C,H,W", help="Shape of the input."),
    weight: str = typer.Option(metavar="M,C,KH,KW", help="Shape of the weights."),
    output: Path = typer.Option(..., "--output", "-o", metavar="DIR", help="Folder to write to."),
    padding: str = typer.Option(
        None, metavar="P|PH,PW|same|valid", help="P, or PH,PW, or same, or valid (default: 0)."
    ),
    padding_mode: str = typer.Option(
        None, metavar="MODE", help="zeros, replicate, reflect or circular (default: zeros)."
    ),
    stride: str = typer.Option(None, metavar="S|SH,SW", help="S, or SH,SW (default: 1)."),
    dilation: str = typer.Option(None, metavar="D|DH,DW", help="D, or DH,DW (default: 1)."),
    groups: int = typer.Option(None, help="Groups of channels (default: 1)."),
    algorithm: str = typer.Option(
        None,
        metavar="NAME",
        help="auto, direct, im2col, loops, winograd2d, winograd1d or mcmr (default: auto).",
    ),
    tile: str = typer.Option(
        None, metavar="M|MH,MW", help="m, or mh,mw: outputs of one Winograd tile."
    ),
    points: str = typer.Option(
        None, metavar="P,P,...", help="Interpolation points, such as 0,1,-1,1/2,-2,inf."
    ),
    moduli: str = typer.Option(
        None, metavar="POLYNOMIALS", help="Polynomials instead, such as x,x-1,x+1,x^2+1,inf."
    ),
    order: str = typer.Option(
        None,
        metavar="NAME",
        help="How transforms add: program, huffman, pairwise or naive (default: program).",
    ),
    border: str = typer.Option(
        None, metavar="NAME", help="How tiles at the rim are padded, as in conv2d."
    ),
    tolerance: float = typer.Option(
        None, help="The fastest way within this error of the output, as in conv2d."
    ),
    filter_dtype: str = typer.Option(
        None,
        metavar="TYPE",
        help="What packed filters are stored in: float16, bfloat16, flyte24, flyte16 or flyte8.",
    ),
    product_dtype: str = typer.Option(
        None,
        metavar="TYPE",
        help="What is multiplied: int16, with --isa avx512+vnni at best, float16, with --isa "
        "avx512+fp16, or bfloat16, with --isa avx512+bf16 at best.",
    ),
    workspace_limit: int = typer.Option(None, help="Bytes of scratch memory, at most."),
    isa: str = typer.Option(
        None,
        metavar="ISA",
        help="avx512, avx2, sse2, neon or generic (default: what this CPU has); with extensions as "
        "avx512+vnni, avx2+avxvnni and neon+dotprod.",
    ),
    dtype: str = typer.Option(
        None,
        metavar="TYPE",
        help="Of the arrays: float32, float64, float16 or bfloat16; or int8 for a layer as QConv2d "
        "has it (default: float32).",
    ),
    x_dtype: str = typer.Option(
        None, metavar="uint8|int8", help="With int8, input: uint8 or int8 (default: uint8)."
    ),
    x_zero: int = typer.Option(None, help="Its zero point (default: 0)."),
    y_dtype: str = typer.Option(
        None,
        metavar="TYPE",
        help="With int8, output: uint8, int8, or int32 for sums (default: as the input).",
    ),
    y_zero: int = typer.Option(None, help="Its zero point (default: 0)."),
    layout: str = typer.Option(None, metavar="NCHW|NHWC", help="NCHW or NHWC (default: NCHW)."),
    activation: str = typer.Option(
        None,
        metavar="NAME[:A[:B]]",
        help=f"{ACTIVATION_WORDS}.",
    ),
    threads: int = typer.Option(None, min=1, help="Threads to cut the work for (default: 1)."),
    name: str = typer.Option(
        None, metavar="NAME", help="Prefix of files and functions (default: from shapes)."
    ),
) -> None:
    """Write one layer as a .c and a .h that compile with `cc -O3` and nothing else."""
    given = {key: value for key, value in locals().items() if value is not None}
    del given["output"]  # what is written does not depend on where
    from winogen.cli.progress import working
    from winogen.codegen.standalone import check_name
    from winogen.conv import arguments
    from winogen.conv.standalone import command_line, standalone
    from winogen.conv.standalone_quantized import standalone_quantized
    from winogen.records import ARRAY_TYPES

    options: dict[str, Any] = dict(given)
    shapes = [integers(key, options.pop(key), 4) for key in ("input", "weight")]
    for key in options.keys() & {"padding", "stride", "dilation", "tile"}:
        if key != "padding" or padding not in ("same", "valid"):
            also = "same, valid" if key == "padding" else ""
            options[key] = single(integers(key, options[key], 1, 2, also=also))
    if activation is not None:
        options["activation"] = parsed_activation(activation)
    if layout == "NHWC":  # --input is N,C,H,W whatever the order in memory
        shapes[0] = (*shapes[0][:1], *shapes[0][2:], *shapes[0][1:2])
    if name is not None:
        check_name(name)
    if dtype is not None:
        arguments.choice("dtype", dtype, (*ARRAY_TYPES, "int8"))
    write = standalone
    if dtype == "int8":
        del options["dtype"]
        _refuse(options, _FLOATS, "without --dtype int8")
        write = standalone_quantized
    else:
        _refuse(options, _INTEGERS, "with --dtype int8")
    with working("choosing and writing an algorithm"):
        files = write(*shapes, command=command_line(given), **options)
    output.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (output / file).write_text(text)
        typer.echo(output / file)


# Options of one kind of layer only.
_FLOATS = ("padding_mode", "tile", "points", "moduli", "order", "border", "tolerance",
           "filter_dtype", "product_dtype", "workspace_limit")  # fmt: skip
_INTEGERS = ("x_dtype", "x_zero", "y_dtype", "y_zero")


def _refuse(options: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    """Refuse options that the layer does not have."""
    from winogen.errors import InvalidValue

    for name in names:
        if name in options:
            raise InvalidValue(
                f"--{name.replace('_', '-')}: got {options[name]!r}; allowed: only {where}"
            )
