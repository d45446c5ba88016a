"""`winogen generate`, `generate-gemm`: a layer, a network, a product as C; an engine as Verilog."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import typer

from winogen.cli.convolution import (
    LAYER,
    OUTPUT_PADDING,
    TRANSPOSED,
    read,
    shapes,
    takes,
    transposed_options,
)
from winogen.cli.generate_device import generate_device
from winogen.cli.generate_engine import generate_engine
from winogen.errors import InvalidValue
from winogen.records import TARGETS
from winogen.records.target import LEVELS, MICROCONTROLLERS

EXAMPLE = (
    "Example: winogen generate --input 1,64,56,56 --weight 64,64,3,3 --padding 1 "
    "--algorithm mcmr --isa avx2 -o vgg"
)
GEMM_EXAMPLE = "Example: winogen generate-gemm --m 3136 --n 16 --k 64 --isa neon -o firmware"

_OUTPUT = typer.Option(..., "--output", "-o", metavar="DIR", help="Folder to write to.")
_ISA = typer.Option(
    None,
    metavar="ISA",
    help=f"{', '.join(TARGETS)}, {', '.join(LEVELS)} (default: what this CPU has); with extensions "
    "as avx512+vnni, avx2+avxvnni, neon+dotprod, neon+i8mm and neon+fp16. Of "
    f"microcontrollers, whose C is generic: {', '.join(MICROCONTROLLERS)}.",
)
_THREADS = typer.Option(None, min=1, metavar="N", help="Threads to cut the work for (default: 1).")
_NAME = typer.Option(
    None,
    metavar="NAME",
    help="Prefix of files and functions (default: from sizes, or as the model's file).",
)

# Panels of help.
_NETWORK = "A network: an ONNX model"
_BYTES = "Layers of 8 bits, with --dtype int8"
_ENGINE = "An engine in Verilog"

# Options of one kind of layer only.
_FLOATS = (
    "padding_mode tile points moduli order border filter_dtype product_dtype workspace_limit "
    "tolerance"
)
_INTEGERS = "x_dtype x_zero y_dtype y_zero y_scale"


@takes(f"stride padding dilation groups layout activation algorithm {_FLOATS}", panels=True)
def generate(
    output: Path = _OUTPUT,
    model: Path = typer.Argument(
        None, metavar="[MODEL]", help="An ONNX file of float32: its network. Else a layer:"
    ),
    input: list[str] = typer.Option(
        None,
        metavar="[NAME=]N,C,H,W",
        help="Shape of a layer's input; with a model, sizes of an input that it leaves open, once "
        "for each.",
        rich_help_panel=LAYER,
    ),
    weight: str = typer.Option(
        None,
        metavar="M,C,KH,KW",
        help="Shape of its weights; C,M,KH,KW with --transposed.",
        rich_help_panel=LAYER,
    ),
    transposed: bool = TRANSPOSED,
    output_padding: str = OUTPUT_PADDING,
    weights: str = typer.Option(
        None,
        metavar="const|object|file",
        help="With a model, where its weights are: const (an array in C), object (an object file) "
        "or file (which the caller maps) (default: const).",
        rich_help_panel=_NETWORK,
    ),
    flash_limit: int = typer.Option(
        None,
        metavar="BYTES",
        help="With a quantized model, what its constants may take: as far as they fit, 3x3 layers "
        "are computed by Winograd in integers, with the same codes (default: all are direct).",
        rich_help_panel=_NETWORK,
    ),
    no_check: bool = typer.Option(
        False,
        "--no-check",
        help="With a model, write the C without running it beside the model.",
        rich_help_panel=_NETWORK,
    ),
    dtype: str = typer.Option(
        None,
        metavar="TYPE",
        help="Of the arrays: float32, float64, float16 or bfloat16; or int8 for a layer as QConv2d "
        "has it (default: float32).",
        rich_help_panel=LAYER,
    ),
    x_dtype: str = typer.Option(
        None,
        metavar="uint8|int8",
        help="With int8, input: uint8 or int8 (default: uint8).",
        rich_help_panel=_BYTES,
    ),
    x_zero: int = typer.Option(None, help="Its zero point (default: 0).", rich_help_panel=_BYTES),
    y_dtype: str = typer.Option(
        None,
        metavar="TYPE",
        help="With int8, output: uint8, int8, or int32 for sums (default: as the input).",
        rich_help_panel=_BYTES,
    ),
    y_zero: int = typer.Option(None, help="Its zero point (default: 0).", rich_help_panel=_BYTES),
    y_scale: float = typer.Option(
        None,
        help="Its scale, with activations besides relu; else the multipliers have it.",
        rich_help_panel=_BYTES,
    ),
    backend: str = typer.Option(
        None,
        metavar="c|opencl|cuda|wgsl|verilog",
        help="c; opencl, cuda or wgsl for a layer on a graphics processor; verilog for an engine "
        "that computes layers of 8 bits (default: c).",
    ),
    engine: str = typer.Option(
        None,
        metavar="F_I,T,F_O,L",
        help="Its channels, tile, filters and lanes in a cycle. The layer, 3x3 if none is given, "
        "is that of its testbench, and sets the size of its memories.",
        rich_help_panel=_ENGINE,
    ),
    exact: bool = typer.Option(
        False,
        "--exact",
        help="Results are those of direct convolution (the default).",
        rich_help_panel=_ENGINE,
    ),
    quantised: bool = typer.Option(
        False,
        "--quantised",
        help="Transformed inputs and filters are rescaled to 8 bits.",
        rich_help_panel=_ENGINE,
    ),
    isa: str = _ISA,
    threads: int = _THREADS,
    name: str = _NAME,
    **options: Any,
) -> None:
    """Write one layer, or a network, as C that compiles with `cc -O3` and nothing else.

    A layer is a .c and a .h. A network is a folder with its weights, a test, a Makefile and a
    CMakeLists.txt. With --backend opencl, cuda or wgsl: a layer as kernels, a program that runs
    them and a test; with verilog: an engine for convolutions, in Verilog.
    """
    from winogen.conv import arguments
    from winogen.conv.standalone import standalone
    from winogen.conv.standalone_quantized import standalone_quantized
    from winogen.conv.standalone_transposed import standalone_transposed
    from winogen.records import ARRAY_TYPES

    bytes_ = {
        "x_dtype": x_dtype, "x_zero": x_zero, "y_dtype": y_dtype, "y_zero": y_zero,
        "y_scale": y_scale,
    }  # fmt: skip
    others = _given({"dtype": dtype, **bytes_, "isa": isa, "threads": threads, "name": name})
    of_engine = _given({"engine": engine, "exact": exact or None, "quantised": quantised or None})
    if backend is not None:
        arguments.choice("backend", backend, _BACKENDS)
    if backend in ("verilog", *_DEVICES):
        shape = {"input": ",".join(input) if input else None, "weight": weight}
        kinds = {"transposed": transposed or None, "output_padding": output_padding}
        models = {
            "model": model and str(model), "weights": weights, "flash_limit": flash_limit,
            "no_check": no_check or None,
        }  # fmt: skip
        given = {**of_engine, **_given({**shape, **kinds, **models}), **options, **others}
        called = given.pop("name", None)
        if backend in _DEVICES:
            generate_device(output, backend, called, given)
        else:
            generate_engine(output, called, given)
        return
    _refuse(of_engine, "engine exact quantised", "with --backend verilog")
    if model is not None:
        kind = {"transposed": transposed or None, "output_padding": output_padding}
        layer = {"weight": weight, **kind, **options, **others}
        of_model = _given({"weights": weights, "flash_limit": flash_limit})
        _generate_network(model, output, input, of_model, _given(layer), not no_check)
        return
    of_model = _given(
        {"weights": weights, "flash_limit": flash_limit, "no_check": no_check or None}
    )
    _refuse(of_model, "weights flash_limit no_check", _MODEL)
    for what, shape in (("input", input), ("weight", weight)):
        if not shape:
            raise InvalidValue(
                f"{what}: got none; allowed: --input and --weight of a layer, or a model's file"
            )
    if len(input) > 1:
        raise InvalidValue(f"input: got {' and '.join(input)}; allowed: one, of a layer")
    words = {
        "input": input[0], "weight": weight, "transposed": transposed or None,
        "output_padding": output_padding, **options, **others,
    }  # fmt: skip
    sizes, layout = shapes(input[0], weight, options)
    asked = {**read(options), **({"layout": layout} if layout != "NCHW" else {}), **others}
    asked |= transposed_options(transposed, output_padding, options)
    write: Callable[..., dict[str, str]] = standalone_transposed if transposed else standalone
    if dtype is not None:
        arguments.choice("dtype", dtype, (*ARRAY_TYPES, "int8"))
    if dtype == "int8":
        if transposed:
            raise InvalidValue("dtype: got 'int8'; allowed: only without --transposed")
        del asked["dtype"]
        _refuse(asked, _FLOATS, "without --dtype int8")
        write = standalone_quantized
    else:
        _refuse(asked, _INTEGERS, "with --dtype int8")
    _write(output, partial(write, *sizes, **asked), "generate", words)


_DEVICES = "opencl", "cuda", "wgsl"
_BACKENDS = "c", *_DEVICES, "verilog"
_MODEL = "with a model"
# What of a layer's options a network has, too.
_READ = ("tolerance", "algorithm", "workspace_limit", "filter_dtype")
_BOTH = ("isa", "name", *_READ)


def _generate_network(
    model: Path,
    output: Path,
    inputs: list[str] | None,
    of_model: dict[str, Any],
    options: dict[str, Any],
    check: bool,
) -> None:
    """Write a network; ``of_model``: options of models only, ``options``: those of layers."""
    from winogen.cli.onnx import shapes_of
    from winogen.conv.standalone import command_line
    from winogen.files import check_folder
    from winogen.network import generate

    _refuse(options, " ".join(set(options) - {*_BOTH}), "without a model")
    asked: dict[str, Any] = {**options}
    check_folder(output)  # what cannot be written is told before any work
    asked |= read({name: options[name] for name in _READ if name in options})
    asked |= of_model
    name = f"winogen generate {shlex.quote(model.name)}"
    command = command_line({**options, **of_model}).replace("winogen generate", name, 1)
    for text in inputs or ():
        command += f" --input {shlex.quote(text)}"
    files = generate(
        model,
        input_shapes=shapes_of(inputs),
        **asked,
        check=check,
        command=command,
    )
    for path in files.write(output):
        typer.echo(path)
    typer.echo(files)


@takes("activation")
def generate_gemm(
    m: int = typer.Option(help="Rows of a and of the output."),
    n: int = typer.Option(help="Columns of b and of the output."),
    k: int = typer.Option(help="Columns of a, rows of b."),
    output: Path = _OUTPUT,
    dtype: str = typer.Option(
        None, metavar="float32|float64", help="float32 or float64 (default: float32)."
    ),
    transpose_a: bool = typer.Option(False, "--transpose-a", help="a lies in memory as k x m."),
    transpose_b: bool = typer.Option(False, "--transpose-b", help="b lies in memory as n x k."),
    isa: str = _ISA,
    threads: int = _THREADS,
    name: str = _NAME,
    **options: Any,
) -> None:
    """Write a product of matrices as a .c and a .h that compile with `cc -O3` and nothing else."""
    from winogen.conv.standalone_gemm import standalone_gemm

    sizes: dict[str, Any] = {"m": m, "n": n, "k": k}
    flags = {"transpose_a": transpose_a or None, "transpose_b": transpose_b or None}
    others = _given({"dtype": dtype, **flags, "isa": isa, "threads": threads, "name": name})
    write = partial(standalone_gemm, **sizes, **read(options), **others)
    _write(output, write, "generate-gemm", {**sizes, **options, **others})


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _write(
    folder: Path, write: Callable[..., dict[str, str]], name: str, words: dict[str, Any]
) -> None:
    """Write what a command makes; its files say the command, but for the folder."""
    from winogen.codegen.standalone import check_name
    from winogen.conv.standalone import command_line
    from winogen.progress import working

    if "name" in words:
        check_name(words["name"])
    with working("choosing and writing an algorithm"):
        files = write(command=command_line(words, name))
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text)
        typer.echo(folder / file)


def _refuse(options: dict[str, Any], names: str, where: str) -> None:
    """Refuse options that the layer does not have."""
    for name in names.split():
        if name in options:
            raise InvalidValue(
                f"--{name.replace('_', '-')}: got {options[name]!r}; allowed: only {where}"
            )
