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


def library(target: Target) -> Library:
    """Return the library that runs segments, compiled on first use; raises BuildError."""
    return load(*_texts(), target, name="segments")


@cache
def _texts() -> tuple[str, str]:
    """The C and its declarations, written once: segments are bound often."""
    source = str(environment().get_template("runtime/segments.c.j2").render(functions=FUNCTIONS))
    return source, declarations("steps.h", "maps.h", "relayout.h", "segments.h")
