"""From networks to programs: scales, then signs, then names."""

import random
from functools import lru_cache
from typing import NamedTuple

from winogen.program.geometry import hashable
from winogen.program.ir import ZERO, Program, Statement, Term
from winogen.program.network import ONE
from winogen.program.passes import prefer_sums
from winogen.program.repair import repair
from winogen.program.scales import Assignment, ScaleProblem, tie

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
    output_scales: tuple
    input_scales: tuple


def lower(network, names=NAMES, free_outputs=False, free_inputs=False, tries=24, seed=0) -> list:
    """The programs (:class:`Lowered`) of fewest statements found, those of few constants first.

    ``free_outputs``: any multiple of each row will do. ``free_inputs``: of each column.

    >>> from winogen.program.greedy import greedy
    >>> from fractions import Fraction as F
    >>> network = greedy([[F(5, 8), F(-5, 8)], [F(3, 2), F(3, 2)]])[0]
    >>> [lower(network, free_outputs=f)[0].program.counts().instructions for f in (False, True)]
    [4, 2]
    """
    found = assignments(network, free_outputs, free_inputs, tries, seed)
    return list(dict.fromkeys(emit(assignment, names) for assignment in found))


def assignments(network, free_outputs=False, free_inputs=False, tries=24, seed=0) -> list:
    """The scales (:class:`winogen.program.scales.Assignment`) of the programs of ``lower``."""
    attempts = _attempts(network, free_outputs, free_inputs, seed)
    best, found = None, {}
    for attempt in range(tries):
        assignment = attempts[attempt]  # one object for the same scales
        if assignment in found:
            continue
        if best is None or assignment.cost[0] < best:
            best, found = assignment.cost[0], {}
        if assignment.cost[0] == best:
            found[assignment] = None
            # No network can do with fewer statements than gates: variety is all that is left.
            if best == len(network.gates) and len(found) >= _VARIETY:
                break
    return sorted(found, key=lambda assignment: assignment.cost)


def statements(network, tries=4, seed=0) -> int:
    """Of how many statements the programs are that ``lower`` finds, signs of outputs aside."""
    attempts = _attempts(network, False, False, seed)
    return min(attempts[attempt].cost[0] for attempt in range(tries))


class _Attempts(dict):
    """Number of an attempt -> its assignment, made when it is first asked for."""

    def __init__(self, problem, seed):
        self.problem, self.seed = problem, seed
        self.known = {}  # scales, as ``hashable`` has them -> assignment

    def __missing__(self, attempt):
        rng = random.Random(f"{self.seed}/{attempt}")
        scales = tie(self.problem, rng, {0: "backward", 1: "forward"}.get(attempt))
        scales = tuple(repair(self.problem, scales, rng))
        key = hashable(scales)
        if key not in self.known:
            self.known[key] = Assignment(self.problem, scales)
        assignment = self[attempt] = self.known[key]
        return assignment


@lru_cache(maxsize=256)
def _attempts(network, free_outputs, free_inputs, seed):
    return _Attempts(ScaleProblem(network, free_outputs, free_inputs), seed)


def emit(assignment, names) -> Lowered:
    """The program of an assignment of scales."""
    network = assignment.problem.network
    width = network.width
    used = [f"{names.inputs}{j}" for j in range(width)]
    value = {node: (ONE, used[node]) for node in range(width)}  # node -> (sign, name)
    product = {}  # (constant, node) -> (sign, name)
    sign = {}  # of a node that is an output with a given scale
    label = {}  # node or product -> the name of the output that it is
    for i, out in enumerate(network.outputs):
        if out is None or out[1] < width or i in assignment.multiples:
            continue
        if out[1] not in label:
            label[out[1]] = f"{names.outputs}{i}"
            sign[out[1]] = ONE if assignment.problem.free_outputs or out[0] > 0 else -ONE
    statements = []

    def state(key, terms):
        name = label.get(key, f"{names.temporaries}{len(statements)}")
        statements.append(Statement(name, tuple(terms)))
        return name

    def multiply(node):
        for constant, source in assignment.products:
            if source == node:
                known, name = value[node]
                negative = False
                for i, own in assignment.multiples.items():
                    if own == (constant, node) and (constant, node) not in label:
                        label[constant, node] = f"{names.outputs}{i}"
                        negative = network.outputs[i][0] < 0
                        factor = (-constant if negative else constant) * known
                result = -ONE if negative else ONE
                factor = constant * known * result
                product[constant, node] = (result, state((constant, node), [Term(factor, name)]))

    def term(constant, node, own, use_product):
        if use_product and (abs(constant), node) in product:
            factor, name = product[abs(constant), node]
            return Term(ONE if (own == factor) == (constant > 0) else -ONE, name)
        factor, name = value[node]
        return Term(constant if own == factor else -constant, name)

    for node in range(width):
        multiply(node)
    for k, option in enumerate(assignment.chosen):
        if option is None:
            continue
        p, x, q, y = option
        own = sign.get(width + k, ONE)
        misfit = abs(p) != 1 != abs(q)
        first = term(p, x, own, misfit)
        second = term(q, y, own, misfit and not first.is_unit)
        value[width + k] = (own, state(width + k, [first, second]))
        multiply(width + k)
    return _finish(assignment, names, used, statements, value, product)


def _finish(assignment, names, inputs, statements, value, product):
    network, scales = assignment.problem.network, assignment.scales
    free_outputs = assignment.problem.free_outputs
    outputs, output_scales = [], []
    for i, out in enumerate(network.outputs):
        if out is None:
            outputs.append(ZERO)
            output_scales.append(ONE)
            continue
        own, name = product[assignment.multiples[i]] if i in assignment.multiples else value[out[1]]
        if free_outputs:
            output_scales.append(own * scales[out[1]] / out[0])
        else:
            output_scales.append(ONE)
            if (own < 0) != (out[0] < 0):
                negated = f"{names.outputs}{i}"
                statements.append(Statement(negated, (Term(-ONE, name),)))
                name = negated
        outputs.append(name)
    program = Program(tuple(inputs), tuple(statements), tuple(outputs))
    fixed = () if free_outputs else program.outputs
    program, flipped = prefer_sums(program, fixed)
    output_scales = tuple(
        -scale if name in flipped else scale for scale, name in zip(output_scales, outputs)
    )
    input_scales = tuple(scales[: network.width])
    return Lowered(program, output_scales, input_scales)
