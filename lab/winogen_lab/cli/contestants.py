"""Contestants of our own as `winogen bench` is told of them, and what its options allow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from winogen.cli.convolution import read
from winogen.conv.options import NAMES
from winogen.errors import InvalidType, InvalidValue

if TYPE_CHECKING:
    from winogen.tuning.layers import BenchLayer
    from winogen_lab.bench.own import Own

_NONE = ("none", "None")


def contestants(
    layers: list[BenchLayer],
    beside: list[str],
    algorithms: str | None,
    *,
    dtype: str,
    **options: Any,
) -> tuple[Own, tuple[Own, ...]]:
    """Return the main contestant and those beside it, checked against the layers.

    ``algorithms``: further ones that differ in nothing else, for short. ``options``: of `Conv2d`,
    as a command gets them. Raises InvalidValue and InvalidType.
    """
    main = ours(layers, dtype, **options)
    others = {text: _beside(main, text, layers) for text in beside}
    # One that applies to no layer shows so in the report.
    for name in _algorithms(algorithms, _allowed(dtype)):
        text = f"algorithm={name}"
        others.setdefault(text, main.but(text, algorithm=name))
    return main, tuple(others.values())


def ours(layers: list[BenchLayer], dtype: str = "float32", **options: Any) -> Own:
    """Return what options of a command ask for, checked against the layers.

    Raises InvalidValue and InvalidType.
    """
    from winogen_lab.bench.own import Own

    algorithm = _named("algorithm", options.get("algorithm", "auto"), ("auto", *_allowed(dtype)))
    usual = {"algorithm": "auto", "layout": "NCHW"}
    if "tile" in options and algorithm in ("direct", "im2col"):
        raise InvalidValue(
            f"tile: got {options['tile']!r}; allowed: none with {algorithm}, which has no tiles"
        )
    asked = {name: one for name, one in read(options).items() if one != usual.get(name)}
    main = Own().but(Own().name, dtype=dtype, **asked)
    main.check(layers)
    return main


def _allowed(dtype: str) -> tuple[str, ...]:
    from winogen_lab.bench.own import ALGORITHMS, QUANTIZED_ALGORITHMS

    return QUANTIZED_ALGORITHMS if dtype == "int8" else ALGORITHMS


def places(beside: list[str]) -> tuple[Own, ...]:
    """Return where else ours run whole nets; raises InvalidValue for what is no place."""
    from winogen_lab.bench.own import PLACES, Own

    for text in beside:
        for name in _changes(text):
            if name not in PLACES:
                raise InvalidValue(
                    f"beside {text}, option: got {name!r} with --nets; allowed: {', '.join(PLACES)}"
                )
    return tuple(_beside(Own(), text, []) for text in dict.fromkeys(beside))


def _beside(main: Own, text: str, layers: list[BenchLayer]) -> Own:
    """Return what a text like "algorithm=mcmr,tile=4x6" says it is."""
    try:
        own = main.but(text, **_changes(text))
        own.check(layers)
    except InvalidValue as error:
        raise InvalidValue(f"beside {text}, {error}") from None
    except InvalidType as error:
        raise InvalidType(f"beside {text}, {error}") from None
    return own


def _changes(text: str) -> dict[str, Any]:
    """The options in a text like "algorithm=mcmr,tile=4x6", and their values."""
    changes = {}
    # A comma also stands within a value: "points=0,1,-1,inf".
    for part in re.split(r",(?=\s*\w+\s*=)", text):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value):
            raise InvalidValue(
                f"beside: got {text!r}; allowed: option=value, several with commas between them"
            )
        try:
            known = {name: value} if value not in _NONE else {}
            changes[name] = (read(known) if name in NAMES else known).get(name)
        except InvalidValue as error:
            raise InvalidValue(f"beside {text}, {error}") from None
    return changes


def _algorithms(text: str | None, allowed: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return ()
    if text == "all":
        return allowed
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(_named("algorithms", name, ("all", *allowed)) for name in names))


def _named(option: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return the value of an option that has names; raises InvalidValue for another."""
    if value not in allowed:
        raise InvalidValue(f"{option}: got {value!r}; allowed: {', '.join(allowed)}")
    return value
