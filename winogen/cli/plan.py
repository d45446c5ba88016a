"""`winogen plan`: what a convolution would run on this machine, and what it is expected to cost."""

from __future__ import annotations

from typing import Any

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
    (image, shape), layout = shapes(input, weight, options)
    numbers = arguments.dtype_named(arguments.choice("dtype", dtype, ARRAY_TYPES))
    asked = {**read(options), "layout": layout}
    kinds: Any = TRANSPOSED_LAYERS if transposed else CONVOLUTIONS
    more = transposed_options(transposed, output_padding, asked)
    if transposed:
        TransposedLayer.of(shape, dtype, Options(**asked), more["output_padding"]).problem(image)
    else:
        Layer.from_options(shape, dtype, Options(**asked)).problem(image)
    zeros = np.broadcast_to(np.zeros((), numbers), shape)
    made = kinds[len(shape) - 2](zeros, **asked, **more).plan(image)
    if as_json:
        typer.echo(json.dumps(made.to_dict(), indent=1))
    else:
        typer.echo(made.source if source else made)
