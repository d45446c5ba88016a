"""`winogen engine`: which accelerator of tiles suits a net, by a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from winogen.cli.options import AS_JSON, print_json

if TYPE_CHECKING:
    from winogen.conv.problem import Problem
    from winogen.hardware.sizing import Demands, Front

EXAMPLE = "Example: winogen engine resnet50 --multipliers 2048 --sram 512K -o engines.svg"


def engine(
    net: str = typer.Argument(
        metavar="NET",
        help="alexnet, googlenet, inception-v3, resnet50, squeezenet or vgg16; another net of "
        "bench --nets; an ONNX file; a layer set or a JSON file, as for bench.",
    ),
    multipliers: int = typer.Option(1024, help="Of the engine, at most."),
    sram: str = typer.Option("1M", metavar="BYTES", help="With K, M or G of 1024."),
    bandwidth: str = typer.Option(
        "16G", metavar="BYTES", help="Of the memory behind, in a second; K, M, G are decimal."
    ),
    clock: str = typer.Option("1G", metavar="HZ", help="Of the engine, alike."),
    bits: int = typer.Option(8, help="Of inputs and filters."),
    exact: bool = typer.Option(
        False,
        "--exact",
        help="Transformed values keep all their bits; else they are rounded to --bits. Layers "
        "whose channels sums of 32 bits do not hold run tap by tap.",
    ),
    plot: Path = typer.Option(None, "--plot", "-o", help="Draw them (.png, .svg, .pdf)."),
    as_json: bool = AS_JSON,
) -> None:
    """Size an accelerator of Cook-Toom tiles for a net: those worth having, the fastest first.

    A model, not a measurement. An engine <f_i,T,f_o,L> multiplies a row of a tile of side T, f_i
    channels, f_o filters and L lanes in a cycle. F(m, r) is among the choices, and direct
    convolution. No engine that is left out is as good in time, multipliers, storage and error.
    """
    from winogen.cli.outputs import check_outputs
    from winogen.hardware.sizing import Demands, front
    from winogen.progress import counting

    check_outputs(None, plot)
    demands = Demands(
        multipliers,
        int(quantity("sram", sram, 1024)),
        quantity("bandwidth", bandwidth),
        quantity("clock", clock),
        bits,
        exact,
    ).check()
    layers = read_layers(net)
    with counting("sizing") as step:
        best = front(layers, demands, step)
    if plot is not None:
        from winogen.hardware.plot import save_front

        save_front(best.engines, demands, net, plot)
    if as_json:
        engines = [one.to_dict(demands.clock) for one in best.engines]
        document = {"kind": "model", "net": net, **demands._asdict(), "engines": engines}
        print_json({**document, "refused": best.refused})
    else:
        typer.echo(table(net, len(layers), best, demands))


def quantity(name: str, text: str, thousand: int = 1000) -> float:
    """Return a number with K, M, G or T behind it; raises InvalidValue.

    >>> quantity("sram", "512K", 1024), quantity("clock", "1.5G")
    (524288.0, 1500000000.0)
    """
    from winogen.errors import InvalidValue

    matched = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)([KMGT]?)", text.strip(), re.IGNORECASE)
    if matched is None or not float(matched[1]):
        raise InvalidValue(f"{name}: got {text!r}; allowed: a positive number, as 512K, 1M, 1.5G")
    power = " KMGT".index(matched[2].upper() or " ")
    return float(matched[1]) * thousand**power


def read_layers(net: str) -> list[Problem]:
    """Return the layers of a net of the hardware room, or of one that others offer."""
    from winogen.hardware import nets
    from winogen.hardware.reading import net_layers
    from winogen.tuning.nets import known

    if net in nets.NETS or net not in known():
        return net_layers(net)
    # Each as often as the net has it; layer sets of the same name have different ones only.
    return [layer.problem() for layer in known()[net].layers(net)]


def table(net: str, layers: int, best: Front, demands: Demands) -> str:
    """Return engines as lines."""
    from winogen.columns import aligned, wrapped
    from winogen.hardware.sizing import algorithm_name

    head = [
        "engine", "algorithm", "multipliers", "ms", "busy", "waits", "MB", "storage", "ports",
        "error", "exact",
    ]  # fmt: skip
    rows = [
        [
            str(one.engine), algorithm_name(one.engine), str(one.engine.multipliers),
            f"{1e3 * one.seconds:.2f}", f"{one.utilisation(demands.clock):.0%}",
            f"{one.bound_by_memory:.0%}", f"{one.bytes / 1e6:.1f}", f"{one.storage}",
            "+".join(map(str, one.engine.ports)), f"{one.error:.1%}" if one.error else "0",
            "x".join(map(str, one.operands)),
        ]
        for one in best.engines
    ]  # fmt: skip
    tapped = [f"Tap by tap with {name}: {why}" for name, why in best.refused.items()]
    return "\n".join([
        f"{net}, {layers} convolutions: a model of engines of up to {demands.multipliers} "
        f"multipliers at {_short(demands.clock)}Hz,",
        f"{_short(demands.sram, 1024)}B of SRAM, {_short(demands.bandwidth)}B/s, inputs and "
        f"filters of {demands.bits} bits",
        "",
        *aligned([head, *rows], left=2),
        "",
        *(line for text in (_LEGEND, *tapped) for line in wrapped(text)),
    ])  # fmt: skip


_LEGEND = (
    "busy: multipliers; waits: time in layers that the memory bounds; MB: moved; storage: bytes of "
    "hold buffers and sums; error: relative, of outputs; exact: bits of operands without any error"
)


def _short(value: float, thousand: int = 1000) -> str:
    """Return a number with K, M or G."""
    for sign in ("", "K", "M"):
        if value < thousand:
            return f"{value:g} {sign}"
        value /= thousand
    return f"{value:g} G"
