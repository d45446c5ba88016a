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
) -> Mapping[str, Any]:
    """Return the values of templates: names, compiler flags, arrays and the function's arguments.

    ``type_of``: an array's type in C. Arguments are the inputs, then the outputs, then the arena.
    """
    arrays = (*inputs, *outputs)
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
                "void *arena",
            ]
        ),
        "call_arguments": ", ".join(array.identifier for array in arrays),
        "tested_arguments": ", ".join(
            [f"in_{array.identifier}" for array in inputs]
            + [f"out_{array.identifier}" for array in outputs]
        ),
        "sizes": {array.name: prod(array.shape) for array in arrays},
    }


def rows(values: Any, dtype: str = "float32") -> str:
    """Return numbers of a type as lines of C."""
    words = spelled if dtype == "float32" else str
    with np.errstate(over="ignore"):  # numbers too large for float32 are infinite in C, too
        numbers = np.asarray(values, dtype).ravel().tolist()
    return wrapped(map(words, numbers), 4, ", ", ",")
