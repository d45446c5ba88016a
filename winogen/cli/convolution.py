"""The options of a convolution on the command line, made of the one list in `conv/options.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, SupportsIndex, get_args, get_origin, get_type_hints

import typer

from winogen.cli.options import ACTIVATION_WORDS, integers, parsed_activation, single
from winogen.conv.options import Options, meanings
from winogen.errors import InvalidValue

# What stands for values that are neither a name nor a number.
_METAVARS = {
    "stride": "S|SH,SW",
    "padding": "P|PH,PW|same|valid",
    "dilation": "D|DH,DW",
    "tile": "M|MH,MW",
    "points": "P,P,...",
    "moduli": "POLYNOMIALS",
    "activation": "NAME[:A[:B]]",
}


# Panels of the help of commands with many options.
LAYER = "The layer"
ALGORITHM = "How it is computed"
_OF_LAYERS = "stride padding dilation groups layout activation padding_mode".split()


def takes(names: str, panels: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options of a convolution, in the place of its ``**options``.

    Those that a user names come as texts and numbers; `read` makes of them what `conv2d` takes.
    ``panels``: whether help has them in `LAYER` and `ALGORITHM`.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            left_out = [name for name in names.split() if given[name] is None]
            function(**{name: value for name, value in given.items() if name not in left_out})

        signature = inspect.signature(function, eval_str=True)
        *own, rest = signature.parameters.values()
        assert rest.kind is rest.VAR_KEYWORD
        required = [one for one in own if one.default is one.empty or one.default.default is ...]
        others = [one for one in own if one not in required]
        taken = (_parameter(name, panels) for name in names.split())
        parameters = [*required, *taken, *others]
        described: Any = command
        described.__name__, described.__doc__ = function.__name__, function.__doc__
        described.__signature__ = signature.replace(parameters=parameters)
        described.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorated


def read(options: dict[str, Any]) -> dict[str, Any]:
    """Return options as `conv2d` takes them; raises InvalidValue.

    >>> read({"stride": "2", "padding": "1,0", "activation": "clip:0:6"})
    {'stride': 2, 'padding': (1, 0), 'activation': ('clip', 0.0, 6.0)}
    """
    return {name: _read(name, value) for name, value in options.items()}


def shapes(input: str, weight: str, options: dict[str, Any]) -> tuple[list[tuple[int, ...]], str]:
    """Return the shapes of a layer's arrays, and its layout, that which is asked for or the usual.

    ``input`` is N,C,H,W whatever the order in memory, with the axes that ``weight`` has.
    """
    from winogen.conv import arguments

    taps = integers("weight", weight, 3, 4, 5)
    rank = len(taps) - 2
    batch, channels, *size = integers("input", input, rank + 2)
    layouts = arguments.LAYOUTS[rank]
    layout = arguments.choice("layout", options.get("layout", layouts[0]), layouts)
    first = layout == layouts[0]
    return [(batch, channels, *size) if first else (batch, *size, channels), taps], layout


# Shapes, spelled alike in all commands.
INPUT = typer.Option(
    ..., "--input", metavar="N,C,H,W", help="Shape of the input.", rich_help_panel=LAYER
)
WEIGHT = typer.Option(
    ..., "--weight", metavar="M,C,KH,KW", help="Shape of the weights.", rich_help_panel=LAYER
)

# Options of the commands that take transposed layers.
TRANSPOSED = typer.Option(
    False,
    "--transposed",
    help="A transposed layer, as conv_transpose2d has it.",
    rich_help_panel=LAYER,
)
OUTPUT_PADDING = typer.Option(
    None,
    metavar="P|PH,PW",
    help="With --transposed, rows and columns added to the output.",
    rich_help_panel=LAYER,
)


def transposed_options(
    transposed: bool, output_padding: str | None, asked: dict[str, Any]
) -> dict[str, Any]:
    """Return what a transposed layer has besides other options, {} for an ordinary one.

    Raises InvalidValue for an output padding without ``transposed``, and for options among those
    that are ``asked`` for that transposed layers lack.
    """
    from winogen.conv.transposed_problem import ORDINARY

    if not transposed:
        if output_padding is not None:
            raise InvalidValue(
                f"output_padding: got {output_padding!r}; allowed: only with --transposed"
            )
        return {}
    for name in ORDINARY:
        if name in asked:
            raise InvalidValue(f"{name}: got {asked[name]!r}; allowed: only without --transposed")
    return {"output_padding": single(integers("output_padding", output_padding or "0", 1, 2, 3))}


def _read(name: str, value: Any) -> Any:
    from winogen.conv import arguments

    if name in ("stride", "dilation", "tile"):
        return single(integers(name, value, 1, 2, 3, signs="x" if name == "tile" else ""))
    if name == "padding":
        ways = ("same", "valid", "causal")
        if value in ways:
            return value
        return single(integers(name, value, 1, 2, 3, also=", ".join(ways)))
    if name == "activation":
        return parsed_activation(value)
    if _names(name):
        return arguments.choice(name, value, _names(name))
    try:
        return _kind(name)(value)
    except ValueError:
        raise InvalidValue(f"{name}: got {value!r}; allowed: a number") from None


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Options)


def _names(name: str) -> tuple[str, ...]:
    """The values of an option that has names; () for all others."""
    kinds = (_hints()[name], *get_args(_hints()[name]))
    literals = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    return tuple(literals) if name not in _METAVARS else ()


def _kind(name: str) -> type:
    kinds = (_hints()[name], *get_args(_hints()[name]))
    if name in _METAVARS:
        return str
    return int if SupportsIndex in kinds else float if float in kinds else str


def _parameter(name: str, panels: bool) -> inspect.Parameter:
    """What typer reads of an option: its type, and the first sentence of its meaning."""
    kind = _kind(name)
    # How Python spells a value, behind a colon, is not how the command line does.
    end = ": " if name in _METAVARS else ". "
    text = " ".join(meanings()[name].split()).partition(end)[0].rstrip(".")
    text = ACTIVATION_WORDS if name == "activation" else re.sub('["`]', "", text)
    metavar = _METAVARS.get(name, "NAME" if kind is str else None)
    panel = (LAYER if name in _OF_LAYERS else ALGORITHM) if panels else None
    option = typer.Option(None, metavar=metavar, help=f"{text}.", rich_help_panel=panel)
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, place, default=option, annotation=kind)
