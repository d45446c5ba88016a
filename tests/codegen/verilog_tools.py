"""Designs for tests of Verilog, and the tools that read them; tests without a tool are skipped."""

import shutil
import subprocess

import pytest

from winogen.algebra import cook_toom, winograd
from winogen.codegen.verilog.bench import bench
from winogen.codegen.verilog.design import TransformDesign, design, streamed
from winogen.fixed import integral
from winogen.program import adder_program
from winogen.program.kinds import KINDS
from winogen.program.widths import Range, signed

ALGORITHMS = {
    "f1_1": lambda: cook_toom(1, 1),
    "f2_1": lambda: cook_toom(2, 1),
    "f1_3": lambda: cook_toom(1, 3),
    "f2_3": lambda: cook_toom(2, 3),
    "f3_2": lambda: cook_toom(3, 2),
    "f4_3_classic": lambda: cook_toom(4, 3, "0,1,-1,2,-2,inf"),
    "f4_3_gaussian": lambda: winograd(4, 3, "x,x-1,x+1,x^2+1,inf"),
}


def need(*tools):
    """Skip the test unless all the tools are there."""
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: apt-get install iverilog verilator yosys")


def transform(name, kind, axes=1, dropped=0, bits=8):
    """A transform of an algorithm; products have a range of their own in each place."""
    made = integral(ALGORITHMS[name]())
    _, _, source, target = KINDS[kind]
    matrix = made.matrices[kind]
    program = adder_program(matrix, inputs=source, outputs=target)
    n = len(matrix[0])

    def given(i, j):
        if kind != "output":
            return signed(bits)
        return Range(-100 * (1 + i * j % 3), 100 + i + j)

    inputs = tuple(tuple(given(i, j) for j in range(n)) for i in range(n if axes == 2 else 1))
    return TransformDesign(f"{name}_{kind}", kind, matrix, program, inputs, axes, dropped)


def written(folder, made, stream=False, count=100):
    """Write the modules of a design and a testbench of one of them; return that one's name."""
    modules = list(made.modules) + ([streamed(made)] if stream else [])
    for one in modules:
        (folder / f"{one.name}.v").write_text(one.text)
    for file, text in bench(made, stream=stream, count=count).items():
        (folder / file).write_text(text)
    return modules[-1].name


def simulated(folder, name, *options, quietly=True):
    """What Icarus Verilog prints of a testbench; ``quietly``: it may not warn of anything."""
    command = ["iverilog", "-Wall", *options, "-y", ".", "-o", "simulation", f"{name}_tb.v"]
    compiled = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert not compiled.returncode and not (quietly and compiled.stderr), compiled.stderr
    run = subprocess.run(["vvp", "simulation"], cwd=folder, capture_output=True, text=True)
    return run.stdout + run.stderr


def linted(folder, name, *options):
    """What Verilator has against a module."""
    command = ["verilator", "--lint-only", "-Wall", *options, "-y", ".", f"{name}.v"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stderr


__all__ = ["ALGORITHMS", "design", "linted", "need", "simulated", "transform", "written"]
