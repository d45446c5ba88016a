"""The C that runs segments, in ``csrc/runtime/``: declared once, in headers for cffi, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

from winogen import resources
from winogen.codegen.functions import FUNCTIONS, TypedConstants
from winogen.codegen.render import renderer_digest
from winogen.codegen.templates import Context
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
# All kinds of maps, as csrc/runtime/maps.h calls them.
KINDS = (
    "MAX_POOL", "REPEAT", "SPREAD_CHANNELS", "SPREAD_PIXELS", "AVERAGE_POOL",
    "AVERAGE_POOL_COUNTED", "GLOBAL_AVERAGE", "POINT", "SUM", "PRODUCT", "SHUFFLE", "GROUP_NORM",
    "LAYER_NORM", "SOFTMAX",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SegmentsContext(Context, templates=("runtime/segments.c.j2",)):
    """What the templates know of C that runs segments."""

    reals: Collection[str]  # the types of numbers that there are functions for
    functions: Mapping[str, TypedConstants] = field(default_factory=lambda: FUNCTIONS)
    kinds: Collection[str] = KINDS  # of maps that are called
    lays: bool = True  # whether maps are filled in by C


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
    return SegmentsContext(reals=[real]).render()


@cache
def _declarations() -> str:
    """What it exports, read once: segments are bound often."""
    return declarations("steps.h", "maps.h", "relayout.h", "segments.h")
