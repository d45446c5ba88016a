"""`winogen onnx`: ONNX models made faster, and what there is to gain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from winogen.cli.options import AS_JSON, App, print_json

OPTIMIZE_EXAMPLE = "Example: winogen onnx optimize model.onnx -o fast.onnx"
LIBRARY_EXAMPLE = "Example: winogen onnx library fast.onnx --input x=1,3,224,224 -o fast.so"
QUANTIZE_EXAMPLE = "Example: winogen onnx quantize model.onnx pictures.npy -o narrow.onnx"
REPORT_EXAMPLE = "Example: winogen onnx report model.onnx --input x=1,3,224,224"

app = App(
    help="Rewrite ONNX models to winogen's operators or to 8 bits; see what they would gain.",
    no_args_is_help=True,
)

INPUT = typer.Option(
    None,
    "--input",
    metavar="[NAME=]N,C,H,W",
    help="Sizes of an input; once for each. The only one needs no name.",
)
_SECONDS = typer.Option(
    30.0, min=0.0, help="About how long to measure layers; inf for as long as that takes."
)
TOLERANCE = typer.Option(None, help="Error that suffices in every layer, as in conv2d: 1e-5.")
OUTPUT_TOLERANCE = typer.Option(
    None,
    help="Error that suffices at the output, as 1e-4: |y - y64| / |y64| against float64. Each "
    "layer gets its own share.",
)


@app.command(epilog=OPTIMIZE_EXAMPLE)
def optimize(
    model: Path = typer.Argument(metavar="MODEL", help="An ONNX file."),
    output: Path = typer.Option(..., "--output", "-o", help="File to write."),
    tolerance: float = TOLERANCE,
    output_tolerance: float = OUTPUT_TOLERANCE,
    threads: int = typer.Option(
        None, min=1, max=1024, help="Threads of a convolution (default: those of onnxruntime)."
    ),
    input: list[str] = INPUT,
    seconds: float = _SECONDS,
    as_json: bool = AS_JSON,
) -> None:
    """Write a model that computes the same with winogen's convolutions, where these are faster.

    Run it in onnxruntime with the library that winogen.onnx.get_library_path() names.
    """
    from winogen.files import output_path
    from winogen.onnx.rewrite import rewrite, save

    output_path(output)  # refuses before any work
    result = rewrite(
        model,
        tolerance=tolerance,
        threads=threads,
        input_shapes=shapes_of(input),
        seconds=seconds,
        output_tolerance=output_tolerance,
    )
    path = save(result.model, output)
    if as_json:
        print_json(result, without="model", gain=result.gain, output=str(path))
        return
    typer.echo(result)
    typer.echo(path)


@app.command(epilog=LIBRARY_EXAMPLE)
def library(
    model: Path = typer.Argument(metavar="MODEL", help="What `winogen onnx optimize` wrote."),
    output: Path = typer.Option(..., "--output", "-o", help="File to write, a shared library."),
    threads: int = typer.Option(
        None, min=1, max=1024, help="Threads of the sessions (default: onnxruntime's default)."
    ),
    isa: str = typer.Option(
        None,
        metavar="NAME",
        help="Instruction set, as avx2 or avx512+vnni (default: all that this CPU has).",
    ),
    input: list[str] = INPUT,
) -> None:
    """Write a library for programs without Python: operators, kernels, plans for these sizes.

    Inputs of other sizes are computed, too, but slowly, and with a message.
    """
    from winogen.onnx.carrying import build_library
    from winogen.progress import working

    with working("compiling the library"):
        path = build_library(model, output, input_shapes=shapes_of(input), threads=threads, isa=isa)
    typer.echo(path)


@app.command(epilog=QUANTIZE_EXAMPLE)
def quantize(
    model: Path = typer.Argument(metavar="MODEL", help="An ONNX file, of float32 numbers."),
    samples: Path = typer.Argument(
        metavar="SAMPLES",
        help="Inputs like those that it is for: a .npy whose first axis counts them, a .npz with "
        "such an array for each input, or a folder with a .npy for each.",
    ),
    output: Path = typer.Option(..., "--output", "-o", help="File to write."),
    percentile: float = typer.Option(
        None,
        metavar="P",
        help="Ranges hold so many percent of the values, as 99.99; those beyond are cut off at "
        "both ends (default: ranges hold all that was seen).",
    ),
    activations: str = typer.Option(
        "uint8", metavar="uint8|int8", help="Numbers of activations: uint8 or int8."
    ),
    per_channel: bool = typer.Option(
        True, "--per-channel/--per-tensor", help="A scale for each filter, or one for all."
    ),
    exclude: list[str] = typer.Option(
        None, metavar="NAME", help="A convolution, or its output, that stays float; once for each."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Write a model that computes its convolutions in 8 bits, and say how far it is off.

    onnxruntime computes ranges and errors for the samples.
    """
    from winogen.onnx.comparison import differences
    from winogen.onnx.loading import load
    from winogen.onnx.quantization import quantized
    from winogen.onnx.rewrite import save
    from winogen.onnx.samples import read_samples
    from winogen.progress import working

    original = load(model)
    with working("computing the ranges"):
        result = quantized(
            original, samples, method="maximum" if percentile is None else "percentile",
            percentile=percentile, activations=activations,
            per_channel=per_channel, exclude=exclude or (),
        )  # fmt: skip
        path = save(result.model, output)
    if not as_json:
        typer.echo(result)
    with working("comparing the models"):
        found = differences(original, result.model, read_samples(original, samples))
    if as_json:
        print_json(result, without="model", differences=found, output=str(path))
        return
    for difference in found:
        typer.echo(difference)
    typer.echo(path)


@app.command(epilog=REPORT_EXAMPLE)
def report(
    model: Path = typer.Argument(metavar="MODEL", help="An ONNX file."),
    tolerance: float = TOLERANCE,
    output_tolerance: float = OUTPUT_TOLERANCE,
    threads: int = typer.Option(
        None, min=1, max=1024, help="Threads (default: OMP_NUM_THREADS or all CPUs)."
    ),
    input: list[str] = INPUT,
    seconds: float = _SECONDS,
    as_json: bool = AS_JSON,
) -> None:
    """Say layer by layer what winogen gains, without changing anything.

    Both sides are measured in turns, where onnxruntime and a compiler are there; else predicted.
    """
    from winogen.onnx.report import report as make

    made = make(
        model,
        tolerance=tolerance,
        threads=threads,
        input_shapes=shapes_of(input),
        seconds=seconds,
        output_tolerance=output_tolerance,
    )
    if as_json:
        print_json(made, gain=made.gain)
    else:
        typer.echo(made)


def shapes_of(texts: list[str] | None) -> dict[str, Any]:
    """Return sizes by input, "" for the only one.

    >>> shapes_of(["x=1,3,224,224"]), shapes_of(["1,3,224,224"])
    ({'x': (1, 3, 224, 224)}, {'': (1, 3, 224, 224)})
    """
    from winogen.cli.options import integers
    from winogen.errors import InvalidValue

    shapes = {}
    for text in texts or ():
        name, _, sizes = text.rpartition("=")
        if name in shapes:
            raise InvalidValue(f"input: got {text!r}, a second shape of one input; allowed: one")
        shapes[name] = integers("input", sizes, *range(1, 9), also="and NAME= before them")
    return shapes
