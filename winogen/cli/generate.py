"""`winogen generate`: a layer, a network, a product as C; an engine as Verilog."""

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
from winogen.cli.options import integers
from winogen.codegen.hosts import HOSTS
from winogen.errors import InvalidValue
from winogen.network.hosts import HOSTS as NETWORK_HOSTS
from winogen.records import TARGETS
from winogen.records.target import LEVELS, MICROCONTROLLERS

EXAMPLE = (
    "Example: winogen generate --input 1,64,56,56 --weight 64,64,3,3 --padding 1 "
    "--algorithm mcmr --isa avx2 -o vgg\n\n"
    "Example: winogen generate --input 3136,64 --weight 64,16 --isa neon -o firmware"
)

_OUTPUT = typer.Option(..., "--output", "-o", metavar="DIR", help="Folder to write to.")
_ISA = typer.Option(
    None,
    metavar="ISA",
    help=f"{', '.join(TARGETS)}, {', '.join(LEVELS)} (default: what this CPU has); with extensions "
    "as avx512+vnni, avx2+avxvnni, neon+dotprod, neon+i8mm and neon+fp16. Of "
    f"microcontrollers, whose C is generic: {', '.join(MICROCONTROLLERS)}.",
)
_THREADS = typer.Option(
    None,
    metavar="N|caller[:N]",
    help="Threads to cut the work for (default: 1). caller: threads are the program's own, each of "
    "which runs a part of a layer, or of a step of a network.",
)
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
_INTEGERS = "x y"


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
        help="Shape of its weights; C,M,KH,KW with --transposed. Two sizes, K,N, with an input of "
        "M,K: a product of matrices.",
        rich_help_panel=LAYER,
    ),
    transposed: bool = TRANSPOSED,
    output_padding: str = OUTPUT_PADDING,
    weights: str = typer.Option(
        None,
        metavar="const|object|file|FILE",
        help="With a model, where its weights are: const (an array in C), object (an object file) "
        "or file (which the caller maps) (default: const). With a layer or a product: a .npy or "
        ".npz file whose arrays weight, bias, ... are packed into C.",
    ),
    flash_limit: int = typer.Option(
        None,
        metavar="BYTES",
        help="With a quantized model, what its constants may take: as far as they fit, 3x3 layers "
        "are computed by Winograd in integers, with the same codes (default: all are direct).",
        rich_help_panel=_NETWORK,
    ),
    output_tolerance: float = typer.Option(
        None,
        metavar="E",
        help="With a model, the largest relative L2 error of each output, as 1e-4, beside the "
        "model in float64: each layer gets a tolerance of its own.",
        rich_help_panel=_NETWORK,
    ),
    pieces: int = typer.Option(
        None,
        metavar="N",
        help="With a model of causal layers of signals, how many samples a call gets: what outputs "
        "to come will see is kept in a state of the caller (default: signals come as a whole).",
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
    x: str = typer.Option(
        None,
        metavar="TYPE[:ZERO]",
        help="Numbers of the input, uint8 or int8, and their zero point (default: uint8:0).",
        rich_help_panel=_BYTES,
    ),
    y: str = typer.Option(
        None,
        metavar="TYPE[:ZERO[:SCALE]]",
        help="Of the output, alike, or int32 for sums (default: type of the input, 0). The scale "
        "is for activations besides relu; else the multipliers have it.",
        rich_help_panel=_BYTES,
    ),
    backend: str = typer.Option(
        None,
        metavar="c|opencl|cuda|wgsl|verilog",
        help="c; opencl, cuda or wgsl for a layer on a graphics processor; verilog for an engine "
        "that computes layers of 8 bits (default: c).",
    ),
    host: str = typer.Option(
        None,
        metavar="|".join((*HOSTS, *NETWORK_HOSTS)),
        help="Whose program calls a layer: "
        + "; ".join(f"{one.name}, {one.means}" for one in HOSTS.values())
        + "; or a network: "
        + "; ".join(f"{one.name}, {one.means}" for one in NETWORK_HOSTS.values())
        + " (default: c).",
    ),
    engine: str = typer.Option(
        None,
        metavar="F_I,T,F_O,L",
        help="Its channels, tile, filters and lanes in a cycle. The layer, 3x3 if none is given, "
        "is that of its testbench, and sets the size of its memories.",
        rich_help_panel=_ENGINE,
    ),
    quantised: bool = typer.Option(
        False,
        "--quantised",
        help="Transformed inputs and filters are rescaled to 8 bits (default: nothing is, and "
        "results are those of direct convolution).",
        rich_help_panel=_ENGINE,
    ),
    isa: str = _ISA,
    threads: str = _THREADS,
    name: str = _NAME,
    **options: Any,
) -> None:
    """Write one layer, or a network, as C that compiles with `cc -O3` and nothing else.

    A layer is a .c and a .h, and so is a product of matrices: --input M,K and --weight K,N, with
    --layout NT, TN or TT where b, a or both lie in memory transposed. A network is a folder with
    its weights, a test, a Makefile and a CMakeLists.txt. With --backend opencl, cuda or wgsl: a
    layer as kernels, a program that runs them and a test; with verilog: an engine for
    convolutions, in Verilog. With --host ggml: a layer as a node of a graph of ggml; with c++ or
    rust: within a safe wrapper, in parts for any threads; with web: a network as WebAssembly and a
    module that loads it.
    """
    from winogen.conv import arguments
    from winogen.conv.standalone import standalone
    from winogen.conv.standalone_quantized import standalone_quantized
    from winogen.conv.standalone_transposed import standalone_transposed
    from winogen.records import ARRAY_TYPES

    bytes_ = {"x": x, "y": y}
    others = _given({"dtype": dtype, **bytes_, "isa": isa, "name": name})
    others |= _given({"threads": _threads(threads)})
    if host is not None:
        known = ("c", *NETWORK_HOSTS) if model is not None else tuple(HOSTS)
        elsewhere = {*HOSTS, *NETWORK_HOSTS} - {*known}
        if host in elsewhere:
            wanted = "without a model" if model is not None else _MODEL
            raise InvalidValue(f"--host: got {host!r}; allowed: only {wanted}")
        if arguments.choice("host", host, known) != "c":
            others["host"] = host
    of_engine = _given({"engine": engine, "quantised": quantised or None})
    of_model = _given(
        {"flash_limit": flash_limit, "output_tolerance": output_tolerance, "pieces": pieces}
    )
    if backend is not None:
        arguments.choice("backend", backend, _BACKENDS)
    if backend in ("verilog", *_DEVICES):
        shape = {"input": ",".join(input) if input else None, "weight": weight}
        kinds = {"transposed": transposed or None, "output_padding": output_padding}
        models = {"model": model and str(model), "weights": weights, **of_model}
        models["no_check"] = no_check or None
        given = {**of_engine, **_given({**shape, **kinds, **models}), **options, **others}
        called = given.pop("name", None)
        if backend in _DEVICES:
            generate_device(output, backend, called, given)
        else:
            generate_engine(output, called, given)
        return
    _refuse(of_engine, "engine quantised", "with --backend verilog")
    if model is not None:
        kind = {"transposed": transposed or None, "output_padding": output_padding}
        layer = {"weight": weight, **kind, **options, **others}
        of_model |= _given({"weights": weights})
        _generate_network(model, output, input, of_model, _given(layer), not no_check)
        return
    of_model |= _given({"no_check": no_check or None})
    _refuse(of_model, " ".join(of_model), _MODEL)
    others |= _given({"weights": weights})
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
    if weight.count(",") == 1:
        _generate_product(output, words)
        return
    sizes, layout = shapes(input[0], weight, options)
    asked = {**read(options), **({"layout": layout} if layout != "NCHW" else {}), **others}
    asked |= transposed_options(transposed, output_padding, options)
    write: Callable[..., dict[str, str]] = standalone_transposed if transposed else standalone
    if transposed:
        _refuse(asked, "weights", "without --transposed")
    if dtype is not None:
        arguments.choice("dtype", dtype, (*ARRAY_TYPES, "int8"))
    if dtype == "int8":
        if transposed:
            raise InvalidValue("dtype: got 'int8'; allowed: only without --transposed")
        for one in ("dtype", *bytes_):
            asked.pop(one, None)
        asked |= _of_bytes("x", x, ("dtype", "zero"))
        asked |= _of_bytes("y", y, ("dtype", "zero", "scale"))
        _refuse(asked, _FLOATS, "without --dtype int8")
        write = standalone_quantized
    else:
        _refuse(asked, _INTEGERS, "with --dtype int8")
    asked.pop("weights", None)
    _write(output, partial(write, *sizes, **asked), words)


_DEVICES = "opencl", "cuda", "wgsl"
_BACKENDS = "c", *_DEVICES, "verilog"
_MODEL = "with a model"
# What of a layer's options a network has, too.
_READ = ("tolerance", "algorithm", "workspace_limit", "filter_dtype")
_BOTH = ("isa", "name", "threads", "host", *_READ)


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


# What of a layer's options a product of matrices has, too.
_OF_PRODUCTS = "input weight layout activation dtype isa threads name weights".split()
_ORDERS = "NN", "NT", "TN", "TT"  # of a and of b in memory, as libraries of BLAS spell them


def _generate_product(output: Path, words: dict[str, Any]) -> None:
    """Write a product of matrices; ``words``: all options that were given, as texts."""
    from winogen.conv import arguments
    from winogen.conv.standalone_gemm import standalone_gemm

    words = _given(words)
    others = " ".join(words.keys() - {*_OF_PRODUCTS})
    _refuse(words, others, "for a layer, not for a product of matrices")
    rows, depth = integers("input", words["input"], 2)
    terms, columns = integers("weight", words["weight"], 2)
    if terms != depth:
        raise InvalidValue(f"weight: got {terms} rows; allowed: {depth}, as the input has columns")
    turned = arguments.choice("layout", words.get("layout", _ORDERS[0]), _ORDERS)
    taken = {name: words[name] for name in _OF_PRODUCTS[-5:] if name in words}
    taken |= {"transpose_a": turned[0] == "T", "transpose_b": turned[1] == "T"}
    taken |= read({name: words[name] for name in ("activation",) if name in words})
    _write(output, partial(standalone_gemm, rows, columns, depth, **taken), words)


def _threads(text: str | None) -> int | str | None:
    """A number of threads, or "caller", of an option's text."""
    from winogen.conv.standalone import CALLER

    if text is None or text.partition(":")[0] == CALLER:
        return text
    if text.isascii() and text.isdecimal() and len(text) < 10 and int(text):
        return int(text)
    allowed = f"a number from 1 on, {CALLER}, or {CALLER}:N"
    raise InvalidValue(f"threads: got {text!r}; allowed: {allowed}")


def _of_bytes(array: str, text: str | None, fields: tuple[str, ...]) -> dict[str, Any]:
    """The options of Python that TYPE, TYPE:ZERO or TYPE:ZERO:SCALE of an array stands for.

    Raises InvalidValue.

    >>> _of_bytes("y", "int8:-5:0.5", ("dtype", "zero", "scale"))
    {'y_dtype': 'int8', 'y_zero': -5, 'y_scale': 0.5}
    """
    words = [] if text is None else text.split(":")
    kinds: dict[str, Callable[[str], Any]] = {"dtype": str, "zero": int, "scale": float}
    try:
        if len(words) <= len(fields):
            return {f"{array}_{one}": kinds[one](word) for one, word in zip(fields, words)}
    except ValueError:  # also an integer of more than 4300 digits
        pass
    shown = str(text) if len(str(text)) <= 60 else f"{str(text)[:57]}..."
    allowed = "TYPE, TYPE:ZERO" + (", TYPE:ZERO:SCALE" if "scale" in fields else "")
    raise InvalidValue(f"{array}: got {shown!r}; allowed: {allowed}")


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _write(folder: Path, write: Callable[..., dict[str, str]], words: dict[str, Any]) -> None:
    """Write the files that ``write`` makes; they say the command, but for the folder."""
    from winogen.codegen.standalone import check_name
    from winogen.conv.standalone import command_line
    from winogen.files import read_array
    from winogen.progress import working

    if "name" in words:
        check_name(words["name"])
    if "weights" in words:
        write = partial(write, weights=read_array("weights", words["weights"]))
    with working("choosing and writing an algorithm"):
        files = write(command=command_line(words))
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
        typer.echo(folder / file)


def _refuse(options: dict[str, Any], names: str, where: str) -> None:
    """Refuse options that the layer does not have."""
    for name in names.split():
        if name in options:
            raise InvalidValue(
                f"--{name.replace('_', '-')}: got {options[name]!r}; allowed: only {where}"
            )
