"""The shared library of operators that onnxruntime loads: compiled once, known to this process.

Compiling needs a C compiler and no onnxruntime; what the operators need of onnxruntime's interface
they declare themselves.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from winogen.codegen.formulas import scalar
from winogen.codegen.render import renderer_digest
from winogen.graph import runtime
from winogen.records import ACTIVATIONS, TARGETS
from winogen.records.activations import Activation
from winogen.toolchain import Library
from winogen.toolchain.loader import Build
from winogen.toolchain.texts import Text

if TYPE_CHECKING:
    from winogen.onnx.planning import Planner

# For any CPU of this kind, so that the file may be copied; the kernels are libraries of their own.
_TARGET = TARGETS["generic"]
# onnxruntime unloads a library when its session ends, other sessions and threads or not.
FLAGS = ("-pthread", *(("-Wl,-z,nodelete",) if sys.platform == "linux" else ()), "-lm")


@dataclass(frozen=True, kw_only=True)
class OperatorsContext(runtime.SegmentsContext, templates=("runtime/onnx.c.j2",)):
    """What the templates know of the library."""

    activations: Collection[Activation]
    scalar: Callable[..., str]  # writes the C of an activation of one number


def source() -> str:
    """Return the C of the library."""
    return OperatorsContext(
        reals=runtime.REALS.values(), activations=ACTIVATIONS.values(), scalar=scalar
    ).render()


def declarations() -> str:
    """Return what the library exports, for cffi."""
    setter = "void winogen_onnx_set_planner(winogen_planner planner, winogen_release release);"
    return f"{runtime.declarations('steps.h', 'maps.h', 'relayout.h', 'plan.h')}\n{setter}\n"


def library() -> Library:
    """Return the loaded library, compiled on first use; raises BuildError."""
    return build_of().load()


def build_of() -> Build:
    """Return what the library is built from."""
    text = Text(f"onnx_operators-{renderer_digest()[:32]}", source)
    return Build(text, declarations(), _TARGET, FLAGS, name="onnx_operators")


def get_library_path() -> str:
    """Return the path of the library, for ``SessionOptions.register_custom_ops_library``.

    Compiles it on first use. Nodes of sessions of this process are planned by winogen from then on.
    Raises BuildError if it cannot be compiled or loaded.
    """
    return planner().path


@cache
def planner() -> Planner:
    """Return the planner of the library, which is installed until the process ends."""
    from winogen.onnx.planning import Planner

    made = Planner(library())
    made.install()
    atexit.register(made.remove)  # sessions may outlive Python
    return made
