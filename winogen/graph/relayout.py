"""What brings a map from one layout into another, computed by ``csrc/runtime/relayout.c.j2``."""

from __future__ import annotations

from math import prod
from typing import Any

from winogen.graph.runtime import REALS
from winogen.graph.shapes import Shape


def is_needed(shape: Shape) -> bool:
    """Return whether maps of this shape lie in memory otherwise in each layout."""
    return shape[1] > 1 and prod(shape[2:]) > 1


def turning(library: Any, origin: str, shape: Shape, dtype: str) -> Any:
    """Return the struct of a call, a `winogen_relayout`, its function and the number of parts."""
    batch, channels, pixels = shape[0], shape[1], prod(shape[2:])
    rows, cols = (channels, pixels) if origin == "NCHW" else (pixels, channels)
    made = library.ffi.new("winogen_relayout *", (batch, rows, cols))
    name = f"winogen_relayout_part_{REALS[dtype]}"
    function = library.ffi.addressof(library.lib, name)
    return made, function, library.lib.winogen_relayout_parts(made)
