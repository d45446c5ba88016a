"""`winogen plan`: what a convolution would run on this machine, and what it is expected to cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from winogen.cli.convolution import (
    INPUT,
    LAYER,
    OUTPUT_PADDING,
    TRANSPOSED,
    read,
    shapes,
    takes,
    transposed_options,
)
from winogen.cli.options import integers

if TYPE_CHECKING:
    from winogen.conv.plan import Plan

EXAMPLE = "Example: winogen plan --input 1,64,56,56 --weight 64,64,3,3 --padding 1 --tolerance 1e-4"


@takes(
    "stride padding dilation groups padding_mode layout activation algorithm tile points moduli "
    "order edge border filter_dtype product_dtype threads workspace_limit tolerance",
    panels=True,
)
def plan(
    input: str = INPUT,
    weight: str = typer.Option(
        ...,
        "--weight",
        metavar="M,C,KH,KW",
        help="Shape of the weights; C,M,KH,KW with --transposed.",
        rich_help_panel=LAYER,
    ),
    transposed: bool = TRANSPOSED,
    output_padding: str = OUTPUT_PADDING,
    dtype: str = typer.Option(
        "float32",
        metavar="TYPE",
        help="Of the arrays: float32, float64, float16 or bfloat16.",
        rich_help_panel=LAYER,
    ),
    source: bool = typer.Option(False, "--source", help="Print the C of the kernel instead."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of lines."),
    **options: Any,
) -> None:
    """Print the plan of a layer: its algorithm, points, memory, and times as predicted.

    The kernel is compiled, but not run. Without options the plan is the one that conv2d follows.
    Shapes of two axes, M,K and K,N, are those of a product of matrices, as gemm has it.
    """
    import json

    import numpy as np

    from winogen.conv import arguments
    from winogen.conv.api import CONVOLUTIONS
    from winogen.conv.api_transposed import TRANSPOSED as TRANSPOSED_LAYERS
    from winogen.conv.options import Options
    from winogen.conv.problem import Layer
    from winogen.conv.transposed_problem import TransposedLayer
    from winogen.errors import InvalidValue
    from winogen.records import ARRAY_TYPES

    if source and as_json:
        raise InvalidValue("json: got --json with --source; allowed: either of them")
    numbers = arguments.dtype_named(arguments.choice("dtype", dtype, ARRAY_TYPES))
    if weight.count(",") == 1:
        made: Plan = _of_product(input, weight, numbers, read(options))
    else:
        (image, shape), layout = shapes(input, weight, options)
        asked = {**read(options), "layout": layout}
        kinds: Any = TRANSPOSED_LAYERS if transposed else CONVOLUTIONS
        more = transposed_options(transposed, output_padding, asked)
        if transposed:
            padded = more["output_padding"]
            TransposedLayer.of(shape, dtype, Options(**asked), padded).problem(image)
        else:
            Layer.from_options(shape, dtype, Options(**asked)).problem(image)
        taps = np.zeros(shape[2:], numbers)
        taps[(range(min(taps.shape)),) * taps.ndim] = 1  # no filter is a column times a row
        made = kinds[taps.ndim](np.broadcast_to(taps, shape), **asked, **more).plan(image)
    if as_json:
        typer.echo(json.dumps(made.to_dict(), indent=1))
    else:
        typer.echo(made.source if source else made)


def _of_product(a: str, b: str, numbers: Any, options: dict[str, Any]) -> Plan:
    """The plan of a product of matrices with these shapes."""
    import numpy as np

    from winogen.conv.gemm import Gemm
    from winogen.errors import InvalidValue

    for name in options.keys() - {"activation", "threads"}:
        raise InvalidValue(
            f"{name}: got {options[name]!r} for a product of matrices; allowed: none, but "
            "activation and threads"
        )
    zeros = np.broadcast_to(np.zeros((), numbers), integers("weight", b, 2))
    return Gemm(zeros, **options).plan(integers("input", a, 2))
