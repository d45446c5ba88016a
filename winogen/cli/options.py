"""What several commands read and print alike: integers, seconds, activations, texts of help."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import typer

from winogen.records.activations import ACTIVATIONS, spelled

# How `--activation` may be given.
ACTIVATION_WORDS = ", ".join(one.option for one in ACTIVATIONS.values())


Function = TypeVar("Function", bound=Callable[..., Any])


class App(typer.Typer):
    """Commands whose help is wrapped by the terminal, not by the lines of their docstrings."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """Register a command, as `typer.Typer.command` does."""
        register = super().command

        def registered(function: Function) -> Function:
            paragraphs = (inspect.getdoc(function) or "").split("\n\n")
            text = "\n\n".join(" ".join(lines.split()) for lines in paragraphs)
            return register(name, help=text, **options)(function)

        return registered


# Of commands about layers, most of which are the laboratory's.
LAYERS = typer.Argument(
    "thesis27", metavar="SET|FILE|NET", help="Layers as for bench: a set, a file or a net."
)
ONLY = typer.Option(None, metavar="TEXT", help="Only layers with this in their names.")
ISA = typer.Option(None, metavar="ISA", help="Instruction set (default: the best of this CPU).")
AS_JSON = typer.Option(False, "--json", help="Print JSON instead of lines.")
RESULTS = typer.Option(None, "--results", metavar="FILE", help="Write the results here, as JSON.")


def give(
    document: dict[str, Any],
    results: Path | None,
    as_json: bool,
    show: Callable[[], object],
    rows_of: str = "layers",
) -> None:
    """Write what was measured to the file ``results``, if one is given, and print it.

    As JSON, or as ``show`` prints it. ``rows_of``: the key of what has a line each in the file.
    """
    if results is not None:
        from winogen.files import write_document

        write_document(document, results, rows_of)
    if as_json:
        print_json(document)
    else:
        show()


def print_json(value: Any, without: str = "", **more: Any) -> None:
    """Print figures as JSON.

    ``value``: a mapping, or a record, whose fields are printed but for the one ``without``.
    ``more``: what else belongs to it.
    """
    document = {name: one for name, one in _fields(value).items() if name != without}
    typer.echo(json.dumps(_plain({**document, **more}), indent=1, allow_nan=False))


def _fields(record: Any) -> Mapping[str, Any]:
    if dataclasses.is_dataclass(record):
        return {one.name: getattr(record, one.name) for one in dataclasses.fields(record)}
    return record._asdict() if hasattr(record, "_asdict") else dict(record)


def _plain(value: Any) -> Any:
    """What JSON can hold: of what is no finite number None."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (list, tuple)) and not hasattr(value, "_asdict"):
        return [_plain(one) for one in value]
    return {str(name): _plain(one) for name, one in _fields(value).items()}


def integers(
    name: str, text: str, *counts: int, signs: str = "", also: str = ""
) -> tuple[int, ...]:
    """Return integers with commas between them as a tuple.

    ``name``: of the option, for the error. ``counts``: how many integers there may be. ``signs``:
    what may stand for a comma. ``also``: what else the option takes, for the error.

    Raises InvalidValue for anything else.

    >>> integers("tile", "4", 1, 2), integers("tile", "4x6", 1, 2, signs="x")
    ((4,), (4, 6))
    """
    from winogen.errors import InvalidValue

    try:
        numbers = tuple(int(part) for part in re.split(f"[,{signs}]", text))
    except ValueError:  # also an integer of more than 4300 digits
        numbers = ()
    if len(numbers) in counts:
        return numbers
    shown = text if len(text) <= 60 else text[:57] + "..."
    count = " or ".join({1: "one", 2: "two", 3: "three"}.get(n, str(n)) for n in counts)
    allowed = f"{count} integers with commas between them{also and f', {also}'}"
    raise InvalidValue(f"{name}: got {shown!r}; allowed: {allowed}")


def single(numbers: tuple[int, ...]) -> int | tuple[int, ...]:
    """Return the number of a tuple of one, a longer tuple as it is."""
    return numbers[0] if len(numbers) == 1 else numbers


def parsed_activation(text: str) -> str | tuple[str | float, ...]:
    """Return an activation as `conv2d` takes it.

    Raises InvalidValue, in the spelling of the command line.

    >>> parsed_activation("leaky_relu:0.1"), parsed_activation("gelu:tanh")
    (('leaky_relu', 0.1), ('gelu', 'tanh'))
    """
    from winogen.errors import InvalidValue

    for known in ACTIVATIONS.values():
        if text == ":".join(known.spelling or (known.name,)):
            if known.per_filter:
                return known.name, 0.0  # the slopes come with the call
            if known.defaults or not known.parameters:
                return spelled(known.name)
    name, *numbers = text.split(":")
    known_as = ACTIVATIONS.get(name)
    try:
        if known_as and not known_as.per_filter and len(numbers) == len(known_as.parameters) > 0:
            return (name, *map(float, numbers))
    except ValueError:
        pass  # refused below
    raise InvalidValue(f"activation: got {text!r}; allowed: {ACTIVATION_WORDS}")


def finite(name: str, seconds: float) -> float:
    """Return a time that ends; raises InvalidValue."""
    from winogen.errors import InvalidValue

    if not math.isfinite(seconds):
        raise InvalidValue(f"{name}: got {seconds}; allowed: a finite number of seconds")
    return seconds
