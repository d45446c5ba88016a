"""What the templates of a network know of the arrays that its caller gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from winogen.codegen.constants import spelled
from winogen.codegen.templates import wrapped
from winogen.network.reading import Array
from winogen.records import Target


def interface(
    name: str,
    target: Target,
    command: str,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    type_of: Callable[[Any], str],
    state: Sequence[str] = (),
) -> Mapping[str, Any]:
    """Return the values of templates: names, compiler flags, arrays and the function's arguments.

    ``type_of``: an array's type in C. ``state``: the name of what is kept between calls, if there
    is something. Arguments are the inputs, then the outputs, then the state, then the arena.
    """
    arrays = (*inputs, *outputs)

    def tested(prefix: str, some: Sequence[Any]) -> list[str]:
        """Arrays of the test; of signals it has all pieces, one behind the other."""
        behind = f" + piece * {name.upper()}_%s_NUMBERS" if state else ""
        return [
            f"{prefix}_{one.identifier}" + (behind and behind % one.identifier.upper())
            for one in some
        ]

    return {
        "name": name,
        "NAME": name.upper(),
        "command": command,
        "isa": target.name,
        "flags": " ".join(target.told),
        "bare": target.bare,
        "inputs": inputs,
        "outputs": outputs,
        "signature": ", ".join(
            [
                *(f"const {type_of(array)} *{array.identifier}" for array in inputs),
                *(f"{type_of(array)} *{array.identifier}" for array in outputs),
                *(f"void *{name}" for name in state),
                "void *arena",
            ]
        ),
        "call_arguments": ", ".join([*(array.identifier for array in arrays), *state]),
        "tested_arguments": ", ".join([*tested("in", inputs), *tested("out", outputs), *state]),
        "sizes": {array.name: prod(array.shape) for array in arrays},
    }


def rows(values: Any, dtype: str = "float32") -> str:
    """Return numbers of a type as lines of C."""
    words = spelled if dtype == "float32" else str
    with np.errstate(over="ignore"):  # numbers too large for float32 are infinite in C, too
        numbers = np.asarray(values, dtype).ravel().tolist()
    return wrapped(map(words, numbers), 4, ", ", ",")
