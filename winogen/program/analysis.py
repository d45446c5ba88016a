"""What programs cost: how rounding errors grow, and how many operations a bare matrix takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from winogen.program.ir import ZERO, Program, Rows, exact

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar
    from winogen.program.search.network import GateNetwork


def error_growth(program: Program) -> float:
    """How much rounding the program adds: 1 is what one rounding of the exact result adds.

    Inputs are independent with equal variance. Every statement (fused: one rounding) adds an error,
    whose variance is proportional to the variance of its exact value and which travels on to the
    outputs linearly; so does every constant beyond float32. Per output, the arriving variance is
    divided by the variance of one rounding of the output itself; the result is the root of the mean
    over the outputs. First order in the unit roundoff, errors taken as independent.

    >>> from winogen.program.search.simplify import simplify
    >>> error_growth(simplify([[1, 1]])), round(error_growth(simplify([[1, 1, 1]])), 2)
    (1.0, 1.29)
    """
    forms = _forms(program)
    variance = {name: sum(c * c for c in row) for name, row in forms.items()}
    rounding = {}
    for statement in program.statements:
        rounding[statement.target] = variance[statement.target]
        for term in statement.terms:
            if not is_exact(term.coefficient):
                factor = float(term.coefficient)
                rounding[statement.target] += factor * factor * variance[term.operand]
    ratios = []
    for output, gain in _gains(program):
        received = sum(g * g * rounding[name] for name, g in gain.items() if name in rounding)
        ratios.append(received / variance[output])
    return math.sqrt(sum(ratios) / len(ratios)) if ratios else 0.0


def network_growth(network: GateNetwork) -> float:
    """``error_growth`` of any program of a network, but for constants that must be rounded.

    It does not depend on scales: a scaled value has a scaled error.
    """
    forms = [[float(k == j) for k in range(network.width)] for j in range(network.width)]
    gates = [(float(a), x, float(b), y) for a, x, b, y in network.gates]
    for a, x, b, y in gates:
        forms.append([a * p + b * q for p, q in zip(forms[x], forms[y])])
    variance = [sum([c * c for c in form]) for form in forms]
    total, outputs = 0.0, {out[1] for out in network.outputs if out} - set(range(network.width))
    for output in outputs:
        gain = [0.0] * len(forms)
        gain[output] = 1.0
        received = 0.0
        for node in range(output, network.width - 1, -1):
            reach = gain[node]
            if reach:
                received += reach * reach * variance[node]
                a, x, b, y = gates[node - network.width]
                gain[x] += reach * a
                gain[y] += reach * b
        total += received / variance[output]
    return math.sqrt(total / len(outputs)) if outputs else 0.0


def _forms(program: Program) -> dict[str, list[float]]:
    """Every value as a row of floats over the inputs."""
    width = len(program.inputs)
    forms = {name: [float(k == j) for k in range(width)] for j, name in enumerate(program.inputs)}
    for statement in program.statements:
        row = [0.0] * width
        for term in statement.terms:
            factor = float(term.coefficient)
            row = [r + factor * c for r, c in zip(row, forms[term.operand])]
        forms[statement.target] = row
    return forms


def _gains(program: Program) -> Iterator[tuple[str, dict[str, float]]]:
    """Per computed output: (its name, {value: how much an error in it changes the output})."""
    for output in dict.fromkeys(program.outputs):
        if output == ZERO or output in program.inputs:
            continue
        gain = {output: 1.0}
        for statement in reversed(program.statements):
            reach = gain.get(statement.target)
            if reach is not None:
                for term in statement.terms:
                    through = reach * float(term.coefficient)
                    gain[term.operand] = gain.get(term.operand, 0.0) + through
        yield output, gain


def is_exact(constant: Scalar) -> bool:
    """Whether float32 holds the constant exactly."""
    if not isinstance(constant, Fraction):
        return False
    bottom = constant.denominator
    return bottom & (bottom - 1) == 0 and abs(constant.numerator) < 2**24


class NaiveCounts(NamedTuple):
    """What it takes to evaluate a matrix row by row, sharing nothing."""

    add: int
    mul: int
    instructions: int  # with FMAs formed


def naive_counts(matrix: Rows) -> NaiveCounts:
    """Count the operations of a matrix evaluated row by row, every constant in its place.

    Each term after the first is an addition or an FMA; a row of constants only starts with a
    multiplication. Signs are free.

    >>> naive_counts([[1, -1, 0], ["1/4", 2, 3], [0, 1, 0], ["1/2", 0, 0]])
    NaiveCounts(add=3, mul=4, instructions=5)
    """
    add = mul = instructions = 0
    for row in matrix:
        entries = [entry for entry in map(exact, row) if entry != 0]
        constants = sum(abs(entry) != 1 for entry in entries)
        sums = max(len(entries) - 1, 0)
        add += sums
        mul += constants
        instructions += sums + (0 < constants == len(entries))
    return NaiveCounts(add, mul, instructions)
