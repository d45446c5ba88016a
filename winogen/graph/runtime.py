"""The C that runs segments, in ``csrc/runtime/``: declared once, in headers for cffi, too."""

from __future__ import annotations

from functools import cache, partial

from winogen import resources
from winogen.codegen.functions import FUNCTIONS
from winogen.codegen.render import renderer_digest
from winogen.codegen.templates import environment
from winogen.conv.stock import first_at_hand
from winogen.records import Target
from winogen.toolchain import Library
from winogen.toolchain.loader import Build
from winogen.toolchain.texts import Text


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
    return first_at_hand(target, partial(build_of, dtype=dtype)).load()


def build_of(target: Target, dtype: str) -> Build:
    """Return what that library is built from."""
    real = REALS[dtype]
    source = Text(f"segments-{real}-{renderer_digest()[:32]}", partial(_source, real))
    return Build(source, _declarations(), target, ("-lm",), name="segments")


def _source(real: str) -> str:
    template = environment().get_template("runtime/segments.c.j2")
    return str(template.render(functions=FUNCTIONS, reals=[real]))


@cache
def _declarations() -> str:
    """What it exports, read once: segments are bound often."""
    return declarations("steps.h", "maps.h", "relayout.h", "segments.h")
