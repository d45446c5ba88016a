"""From networks to programs: scales, then signs, then names."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from winogen.program.ir import ZERO, Program, Statement, Term, magnitude
from winogen.program.search.geometry import hashable
from winogen.program.search.network import ONE
from winogen.program.search.passes import prefer_sums
from winogen.program.search.repair import repair
from winogen.program.search.scales import Assignment, ScaleProblem, tie

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar
    from winogen.program.search.geometry import Key
    from winogen.program.search.network import GateNetwork, Signal

Named: TypeAlias = tuple[Fraction, str]  # a sign and the name of a value

_VARIETY = 6  # programs that are enough when none can be shorter


class Names(NamedTuple):
    """The prefixes of the names of inputs, outputs and temporaries."""

    inputs: str = "d"
    outputs: str = "v"
    temporaries: str = "t"


NAMES = Names()


class Lowered(NamedTuple):
    """A program and the factors of the scales that were left to choose (1 where none was).

    The program computes ``output_scales[i] * matrix[i][j] / input_scales[j]``.
    """

    program: Program
    output_scales: tuple[Scalar, ...]
    input_scales: tuple[Scalar, ...]


def lower(
    network: GateNetwork,
    names: Names = NAMES,
    free_outputs: bool = False,
    free_inputs: bool = False,
    tries: int = 24,
    seed: int = 0,
) -> list[Lowered]:
    """The programs (``Lowered``) of fewest statements found; programs of few constants stand first.

    ``free_outputs``: any multiple of each row will do. ``free_inputs``: of each column.

    >>> from winogen.program.search.greedy import greedy
    >>> from fractions import Fraction as F
    >>> network = greedy([[F(5, 8), F(-5, 8)], [F(3, 2), F(3, 2)]])[0]
    >>> [lower(network, free_outputs=f)[0].program.counts().instructions for f in (False, True)]
    [4, 2]
    """
    cheapest = assignments(network, free_outputs, free_inputs, tries, seed)
    return list(dict.fromkeys(emit(assignment, names) for assignment in cheapest))


def assignments(
    network: GateNetwork,
    free_outputs: bool = False,
    free_inputs: bool = False,
    tries: int = 24,
    seed: int = 0,
) -> list[Assignment]:
    """The scales (``Assignment``) of the programs of ``lower``."""
    attempts = _attempts(network, free_outputs, free_inputs, seed)
    best: float | None = None
    cheapest: dict[Assignment, None] = {}
    for attempt in range(tries):
        assignment = attempts[attempt]  # one object for the same scales
        if assignment in cheapest:
            continue
        if best is None or assignment.cost[0] < best:
            best, cheapest = assignment.cost[0], {}
        if assignment.cost[0] == best:
            cheapest[assignment] = None
            # No network can do with fewer statements than gates: variety is all that is left.
            if best == len(network.gates) and len(cheapest) >= _VARIETY:
                break
    return sorted(cheapest, key=lambda assignment: assignment.cost)


def statements(network: GateNetwork, tries: int = 4, seed: int = 0) -> int:
    """Of how many statements the programs are that ``lower`` finds, signs of outputs aside."""
    attempts = _attempts(network, False, False, seed)
    return min(attempts[attempt].cost[0] for attempt in range(tries))


class _Attempts(dict[int, Assignment]):
    """Number of an attempt -> its assignment, made when it is first asked for."""

    def __init__(self, problem: ScaleProblem, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.by_scales: dict[Key, Assignment] = {}

    def __missing__(self, attempt: int) -> Assignment:
        rng = random.Random(f"{self.seed}/{attempt}")
        tied = tie(self.problem, rng, {0: "backward", 1: "forward"}.get(attempt))
        scales = tuple(repair(self.problem, tied, rng))
        key = hashable(scales)
        if key not in self.by_scales:
            self.by_scales[key] = Assignment(self.problem, scales)
        assignment = self[attempt] = self.by_scales[key]
        return assignment


@lru_cache(maxsize=256)
def _attempts(network: GateNetwork, free_outputs: bool, free_inputs: bool, seed: int) -> _Attempts:
    return _Attempts(ScaleProblem(network, free_outputs, free_inputs), seed)


def emit(assignment: Assignment, names: Names) -> Lowered:
    """The program of an assignment of scales."""
    network = assignment.problem.network
    width = network.width
    used = [f"{names.inputs}{j}" for j in range(width)]
    value: dict[int, Named] = {node: (ONE, used[node]) for node in range(width)}
    product: dict[Signal, Named] = {}
    sign = {}  # of a node that is an output with a given scale
    label: dict[int | Signal, str] = {}  # node or product -> the name of the output that it is
    for i, out in enumerate(network.outputs):
        if out is None or out[1] < width or i in assignment.multiples:
            continue
        if out[1] not in label:
            label[out[1]] = f"{names.outputs}{i}"
            sign[out[1]] = ONE if assignment.problem.free_outputs or out[0] > 0 else -ONE
    statements: list[Statement] = []

    def state(key: int | Signal, terms: Sequence[Term]) -> str:
        name = label.get(key, f"{names.temporaries}{len(statements)}")
        statements.append(Statement(name, tuple(terms)))
        return name

    def multiply(node: int) -> None:
        for constant, source in assignment.products:
            if source == node:
                unit, name = value[node]
                negative = False
                for i, multiple in assignment.multiples.items():
                    if multiple == (constant, node) and (constant, node) not in label:
                        label[constant, node] = f"{names.outputs}{i}"
                        out = network.outputs[i]
                        negative = out is not None and out[0] < 0
                result = -ONE if negative else ONE
                factor = constant * unit * result
                product[constant, node] = (result, state((constant, node), [Term(factor, name)]))

    def term(constant: Scalar, node: int, unit: Fraction, use_product: bool) -> Term:
        if use_product and (magnitude(constant), node) in product:
            factor, name = product[magnitude(constant), node]
            return Term(ONE if (unit == factor) == (constant > 0) else -ONE, name)
        factor, name = value[node]
        return Term(constant if unit == factor else -constant, name)

    for node in range(width):
        multiply(node)
    for k, option in enumerate(assignment.chosen):
        if option is None:
            continue
        p, x, q, y = option
        unit = sign.get(width + k, ONE)
        misfit = abs(p) != 1 != abs(q)
        first = term(p, x, unit, misfit)
        second = term(q, y, unit, misfit and not first.is_unit)
        value[width + k] = (unit, state(width + k, [first, second]))
        multiply(width + k)
    return _finish(assignment, names, used, statements, value, product)


def _finish(
    assignment: Assignment,
    names: Names,
    inputs: list[str],
    statements: list[Statement],
    value: dict[int, Named],
    product: dict[Signal, Named],
) -> Lowered:
    network, scales = assignment.problem.network, assignment.scales
    free_outputs = assignment.problem.free_outputs
    outputs: list[str] = []
    output_scales: list[Scalar] = []
    for i, out in enumerate(network.outputs):
        if out is None:
            outputs.append(ZERO)
            output_scales.append(ONE)
            continue
        unit, name = (
            product[assignment.multiples[i]] if i in assignment.multiples else value[out[1]]
        )
        if free_outputs:
            output_scales.append(unit * scales[out[1]] / out[0])
        else:
            output_scales.append(ONE)
            if (unit < 0) != (out[0] < 0):
                negated = f"{names.outputs}{i}"
                statements.append(Statement(negated, (Term(-ONE, name),)))
                name = negated
        outputs.append(name)
    program = Program(tuple(inputs), tuple(statements), tuple(outputs))
    fixed = () if free_outputs else program.outputs
    program, flipped = prefer_sums(program, fixed)
    signed = tuple(
        -scale if name in flipped else scale for scale, name in zip(output_scales, outputs)
    )
    return Lowered(program, signed, tuple(scales[: network.width]))
