"""`winogen generate --backend verilog`: an engine as a folder of Verilog, with a testbench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from winogen.cli.convolution import read
from winogen.cli.options import integers
from winogen.errors import InvalidValue, Unsupported

if TYPE_CHECKING:
    from winogen.hardware.accelerator import LayerShape
    from winogen.hardware.engine import Engine

_SIZES = "F_I,T,F_O,L, as 8,4,8,1"
# Options of a layer that an engine has, too.
_TAKEN = ("padding", "points", "activation")


def generate_engine(output: Path, name: str | None, asked: dict[str, Any]) -> None:
    """Write the engine; ``asked``: what the user gave, by the names of options, as texts.

    Raises InvalidValue and Unsupported.
    """
    from winogen.codegen.verilog.keywords import check_module
    from winogen.conv.standalone import command_line
    from winogen.files import check_folder
    from winogen.hardware.accelerator import accelerator
    from winogen.hardware.verilog import files, random_layer
    from winogen.progress import working

    known = ("engine", "quantised", "input", "weight", *_TAKEN)
    for other, value in asked.items():
        if other not in known:
            raise InvalidValue(
                f"--{other.replace('_', '-')}: got {value!r}; allowed: only without "
                "--backend verilog"
            )
    options = read({key: asked[key] for key in _TAKEN if key in asked})
    if options.get("activation", "relu") != "relu":
        raise InvalidValue(f"activation: got {asked['activation']!r}; allowed: relu, or none")
    engine = _engine(asked.get("engine"), asked.get("weight"))
    shape = _shape(engine, asked, options)
    called = check_module(name or "engine")
    command = command_line({"backend": "verilog", **asked, "name": name})
    check_folder(output)
    with working("writing an engine"):
        made = accelerator(
            engine,
            shape,
            quantised="quantised" in asked,
            algorithm=_algorithm(engine, options.get("points")),
        )
        layer = random_layer(shape, relu="activation" in options)
        written = files(made, layer, called, command)
    output.mkdir(parents=True, exist_ok=True)
    for file, text in written.items():
        (output / file).write_text(text, "utf-8")
        typer.echo(output / file)
    circuit = made.circuit
    typer.echo(
        f"{engine}: {engine.multipliers} multipliers of {circuit.values.bits} x "
        f"{circuit.filters.bits} bits, up to {circuit.channels} channels; {made.cycles(shape)} "
        f"cycles for {shape}"
    )


def _engine(text: str | None, weight: str | None) -> Engine:
    """The engine of a text, for 3x3 or the filters that are given; raises InvalidValue."""
    from winogen.hardware.engine import Engine

    if text is None:
        raise InvalidValue(f"engine: got none; allowed: {_SIZES}")
    try:
        sizes = integers("engine", text, 4)
    except InvalidValue:
        raise InvalidValue(f"engine: got {text[:60]!r}; allowed: {_SIZES}") from None
    taps = integers("weight", weight, 4)[2] if weight else 3
    try:
        return Engine(*sizes, r=max(taps, 2) if taps != 1 else 3)
    except InvalidValue as error:
        part, _, reason = str(error).partition(": ")
        allowed = reason.partition("allowed: ")[2]
        raise InvalidValue(
            f"engine: got {text!r}; allowed: F_I,T,F_O,L with {part.upper()} {allowed}"
        ) from None


def _shape(engine: Engine, asked: dict[str, Any], options: dict[str, Any]) -> LayerShape:
    """The layer of the testbench: the one that is asked for, or two groups each way."""
    from winogen.hardware.accelerator import LayerShape

    if ("input" in asked) != ("weight" in asked):
        missing = "weight" if "input" in asked else "input"
        raise InvalidValue(f"{missing}: got none; allowed: both --input and --weight, or neither")
    if "input" not in asked:
        side = 4 * engine.T
        padding = _padding(options.get("padding", "same"), engine.r)
        return LayerShape(2 * engine.f_i, side, side, 2 * engine.f_o, engine.r, padding)
    batch, channels, height, width = integers("input", asked["input"], 4)
    filters, weights, rows, columns = integers("weight", asked["weight"], 4)
    for what, sizes in (
        ("input", (batch, channels, height, width)), ("weight", (filters, weights, rows, columns)),
    ):  # fmt: skip
        if min(sizes) < 1:
            raise InvalidValue(f"{what}: got {asked[what]!r}; allowed: positive sizes")
    if batch != 1:
        raise InvalidValue(f"input: got {batch} images; allowed: 1, as the engine computes one")
    if weights != channels:
        raise InvalidValue(
            f"weight: got {weights} channels; allowed: {channels}, as the input has them"
        )
    if rows != columns:
        raise InvalidValue(f"weight: got filters of {rows} x {columns}; allowed: square ones")
    padding = _padding(options.get("padding", 0), rows)
    return LayerShape(channels, height, width, filters, rows, padding)


def _padding(padding: Any, taps: int) -> int:
    if padding in ("same", "valid"):
        if padding == "same" and taps % 2 == 0:
            raise InvalidValue(f"padding: got 'same' for {taps} taps; allowed: a number")
        return (taps - 1) // 2 if padding == "same" else 0
    if isinstance(padding, tuple):
        if len(set(padding)) > 1:
            raise InvalidValue(f"padding: got {padding}; allowed: the same on all sides")
        padding = padding[0]
    return int(padding)


def _algorithm(engine: Engine, points: str | None) -> Any:
    """F(m, r) on the points that are asked for, or those of the model; raises InvalidValue."""
    from winogen.algebra import cook_toom
    from winogen.hardware.arithmetic import transform

    if points is not None:
        return cook_toom(engine.m, engine.r, points)
    try:
        return transform(engine)
    except Unsupported as error:
        allowed = str(error).partition("allowed: ")[2]
        raise Unsupported(f"engine: got {engine}; allowed: {allowed}; or --points") from None
