"""The C that runs segments, in ``csrc/runtime/``: declared once, in headers for cffi, too."""

from __future__ import annotations

from functools import cache

from winogen import resources
from winogen.codegen.functions import FUNCTIONS
from winogen.codegen.templates import environment
from winogen.records import Target
from winogen.toolchain import Library, load


def declarations(*names: str) -> str:
    """Return these headers, for cffi."""
    folder = resources.folder("csrc") / "runtime"
    return "\n".join((folder / name).read_text("utf-8") for name in names)


# What numbers are called in C.
REALS = {"float32": "float", "float64": "double"}


def library(target: Target, dtype: str) -> Library:
    """Return the library that runs segments of such numbers, compiled on first use.

    Raises BuildError.
    """
    return load(*_texts(REALS[dtype]), target, name="segments")


@cache
def _texts(real: str) -> tuple[str, str]:
    """The C and its declarations, written once: segments are bound often."""
    template = environment().get_template("runtime/segments.c.j2")
    source = str(template.render(functions=FUNCTIONS, reals=[real]))
    return source, declarations("steps.h", "maps.h", "relayout.h", "segments.h")
