"""The shared library of operators that onnxruntime loads: compiled once, known to this process.

Compiling needs a C compiler and no onnxruntime; what the operators need of onnxruntime's interface
they declare themselves.
"""

from __future__ import annotations

import atexit
import sys
from functools import cache
from typing import Any

from winogen import resources
from winogen.codegen.templates import environment
from winogen.records import TARGETS
from winogen.toolchain import Library, load

DOMAIN = "com.winogen"

# For any CPU of this kind, so that the file may be copied; the kernels are libraries of their own.
_TARGET = TARGETS["generic"]
# onnxruntime unloads a library when its session ends, other sessions and threads or not.
_FLAGS = ("-pthread", *(("-Wl,-z,nodelete",) if sys.platform == "linux" else ()), "-lm")


def source() -> str:
    """Return the C of the library."""
    return str(environment().get_template("runtime/onnx.c.j2").render())


def declarations() -> str:
    """Return what the library exports, for cffi."""
    plan = (resources.folder("csrc") / "runtime" / "plan.h").read_text("utf-8")
    setter = "void winogen_onnx_set_planner(winogen_planner planner, winogen_release release);"
    return f"{plan}\n{setter}\n"


def library() -> Library:
    """Return the loaded library, compiled on first use; raises BuildError."""
    return load(source(), declarations(), _TARGET, _FLAGS, name="onnx_operators")


def get_library_path() -> str:
    """Return the path of the library, for ``SessionOptions.register_custom_ops_library``.

    Compiles it on first use. Nodes of sessions of this process are planned by winogen from then on.
    Raises BuildError if it cannot be compiled or loaded.
    """
    return str(planned_library().path)


@cache
def planned_library() -> Library:
    """Return the library with a planner installed, which ends with the process."""
    from winogen.onnx.planning import Planner

    loaded = library()
    planner = Planner(loaded)
    planner.install()
    atexit.register(planner.remove)  # sessions may outlive Python
    _planners.append(planner)
    return loaded


_planners: list[Any] = []  # kept alive: the library calls them
