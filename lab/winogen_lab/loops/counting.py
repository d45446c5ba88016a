"""Instructions and cache misses of a nest: written as C, and run by cachegrind."""

from __future__ import annotations

import shutil
from dataclasses import replace
from math import prod
from tempfile import TemporaryDirectory

from winogen.codegen.hosts import HOSTS
from winogen.codegen.interface import float_interface
from winogen.conv.accuracy import predicted_error
from winogen.conv.choice import Choice
from winogen.conv.cuts import evaluate
from winogen.conv.problem import Problem
from winogen.conv.standalone import about_of, reference_of
from winogen.errors import Unsupported, WinogenError
from winogen.kernels.spec import KernelSpec
from winogen.records import Machine, Target
from winogen.toolchain import find_compiler
from winogen_lab.bench.cachegrind import counted_of
from winogen_lab.bench.layer_calls import compiled

SIMULATED = ("avx2", "sse4.2", "sse2", "generic")  # what valgrind knows


def check(target: Target) -> None:
    """Raise WinogenError where nothing can be counted: without valgrind, or for wider vectors."""
    if shutil.which("valgrind") is None:
        raise WinogenError("valgrind is not on the path; install it, or search by seconds")
    if target.name not in SIMULATED:
        raise Unsupported(f"isa: got {target.name}; allowed: {', '.join(SIMULATED)}, to count")


def counts_of(problem: Problem, target: Target, choice: Choice) -> dict[str, int]:
    """Return the `COUNTS` of one call of a nest on packed filters; ``choice`` has its parameters.

    Raises what the compiler and cachegrind say, as subprocess does.
    """
    (way,) = evaluate(problem, [choice], target, Machine(), None)
    (work,) = way.works(problem)
    spec = KernelSpec.of(work)
    fields = spec.values(work)
    shapes = {
        "input": problem.input_shape,
        "weight": problem.layer.weight_shape,
        "output": problem.output_shape,
    }
    error = predicted_error(problem.layer, way.choice, target)
    interface = replace(
        float_interface(spec, fields),
        shapes=shapes,
        reference=replace(reference_of(problem), error=error),
    )
    about = about_of(problem, way.choice, spec)
    files = HOSTS["c"].files("measured", spec, fields, interface, about, __name__, constants=())
    sizes = map(prod, shapes.values())
    with TemporaryDirectory() as folder:
        return counted_of(compiled(folder, find_compiler().command, files, *sizes))
