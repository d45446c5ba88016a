"""Contestants of our own as `winogen bench` is told of them, and what its options allow."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from winogen.cli.options import integers

if TYPE_CHECKING:
    from winogen.lab.bench.own import Own
    from winogen.tuning.layers import BenchLayer

_POSITIVE = "a positive number, as 1e-6"
_NONE = ("none", "None")


def contestants(
    layers: list[BenchLayer],
    beside: list[str],
    algorithms: str | None,
    *,
    dtype: str,
    algorithm: str,
    tile: str | None,
    **options: Any,
) -> tuple[Own, tuple[Own, ...]]:
    """Return the main contestant and those beside it, checked against the layers.

    ``algorithms``: further ones that differ in nothing else, for short. ``options``: of `Conv2d`;
    None for what is usual. Raises InvalidValue and InvalidType.
    """
    from winogen.lab.bench.own import ALGORITHMS, QUANTIZED_ALGORITHMS, Own

    allowed = QUANTIZED_ALGORITHMS if dtype == "int8" else ALGORITHMS
    named("algorithm", algorithm, ("auto", *allowed))
    if options["tolerance"] is not None:
        options["tolerance"] = tolerance_of(options["tolerance"])
    chosen = {"algorithm": algorithm, "tile": tile_of(tile, algorithm), **options}
    main = Own().but(Own().name, dtype=dtype, **_unusual(chosen))
    main.check(layers)
    others = {text: _beside(main, text, layers) for text in beside}
    # Those that apply to none of the layers show so in the report.
    for name in _algorithms(algorithms, allowed):
        text = f"algorithm={name}"
        others.setdefault(text, main.but(text, algorithm=name))
    return main, tuple(others.values())


def _unusual(options: dict[str, Any]) -> dict[str, Any]:
    """The options that ask for something."""
    usual = {"algorithm": "auto", "layout": "NCHW"}
    return {
        name: value
        for name, value in options.items()
        if value is not None and value != usual.get(name)
    }


def places(beside: list[str]) -> tuple[Own, ...]:
    """Return where else ours run whole nets; raises InvalidValue for what is no place."""
    from winogen.errors import InvalidValue
    from winogen.lab.bench.own import PLACES, Own

    for text in beside:
        for name in _changes(text):
            if name not in PLACES:
                raise InvalidValue(
                    f"beside {text}, option: got {name!r} with --nets; allowed: {', '.join(PLACES)}"
                )
    return tuple(_beside(Own(), text, []) for text in dict.fromkeys(beside))


def _beside(main: Own, text: str, layers: list[BenchLayer]) -> Own:
    """Return what a text like "algorithm=mcmr,tile=4x6" says it is."""
    from winogen.errors import InvalidType, InvalidValue

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
    from winogen.errors import InvalidValue

    changes = {}
    # A comma also stands within a value: "points=0,1,-1,inf".
    for part in re.split(r",(?=\s*\w+\s*=)", text):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value):
            raise InvalidValue(
                f"beside: got {text!r}; allowed: option=value, several with commas between them"
            )
        try:
            changes[name] = None if value in _NONE else _READ.get(name, str)(value)
        except InvalidValue as error:
            raise InvalidValue(f"beside {text}, {error}") from None
    return changes


def _tile(text: str) -> int | tuple[int, int]:
    tile = integers("tile", text, 1, 2, signs="x")
    return tile[0] if len(tile) == 1 else (tile[0], tile[1])


def _tolerance(text: str) -> float:
    from winogen.errors import InvalidValue

    try:
        return float(text)
    except ValueError:
        raise InvalidValue(f"tolerance: got {text!r}; allowed: {_POSITIVE}") from None


def _bytes(text: str) -> int:
    return integers("workspace_limit", text, 1)[0]


# Options whose values are no text.
_READ: dict[str, Callable[[str], Any]] = {
    "tile": _tile,
    "tolerance": _tolerance,
    "workspace_limit": _bytes,
}


def _algorithms(text: str | None, allowed: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return ()
    if text == "all":
        return allowed
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(named("algorithms", name, ("all", *allowed)) for name in names))


def tile_of(text: str | None, algorithm: str) -> int | tuple[int, int] | None:
    """Return the tile that `--tile` asks for; raises InvalidValue."""
    from winogen.errors import InvalidValue

    if text is None:
        return None
    if algorithm in ("direct", "im2col", "loops"):
        raise InvalidValue(
            f"tile: got {text!r}; allowed: none with {algorithm}, which has no tiles"
        )
    tile = _tile(text)
    if min(tile if isinstance(tile, tuple) else (tile,)) < 1:
        raise InvalidValue(f"tile: got {text!r}; allowed: a positive int, or two as 4,6")
    return tile


def tolerance_of(value: float | None) -> float | None:
    """Return the tolerance if it is one; raises InvalidValue."""
    from winogen.conv.arguments import positive

    return None if value is None else positive("tolerance", value, _POSITIVE)


def named(option: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return the value of an option that has names; raises InvalidValue for another."""
    from winogen.errors import InvalidValue

    if value not in allowed:
        raise InvalidValue(f"{option}: got {value!r}; allowed: {', '.join(allowed)}")
    return value
