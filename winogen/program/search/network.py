"""Networks: the shape of a program before scales and signs are chosen.

A gate adds two earlier nodes with any two constants. That is more than one instruction can do, and
deliberately so: up to scale a linear form is a point of a projective space, a gate is a point on
the line through two others, and the search for short programs is a search for few points. Which
multiple of the point a program computes is decided afterwards, by ``lower``.

Nodes are numbered: inputs 0 .. width-1, then one per gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix, Scalar

ONE = Fraction(1)
Signal: TypeAlias = "tuple[Scalar, int]"  # constant * node; None in its place is zero
# A scale and a point, whose product is a linear form; None is zero.
_Scaled: TypeAlias = "tuple[Scalar, tuple[Scalar | int, ...]] | None"


class Gate(NamedTuple):
    """``a * node x + b * node y``."""

    a: Scalar
    x: int
    b: Scalar
    y: int


class GateNetwork(NamedTuple):
    """Gates in an order in which they can run; outputs are ``(constant, node)``, None for zero."""

    width: int
    gates: tuple[Gate, ...]
    outputs: tuple[Signal | None, ...]

    def forms(self) -> list[tuple[Scalar, ...]]:
        """The exact linear form (a row of ``width`` scalars) of every node, inputs included."""
        rows = [unit(self.width, j) for j in range(self.width)]
        for a, x, b, y in self.gates:
            rows.append(combine(a, rows[x], b, rows[y]))
        return rows

    def _points(self) -> list[_Scaled]:
        """(scale, point) of every node, its form being scale * point; None for zero.

        Points are integers without a common factor where possible: this is much faster than a row
        of fractions; otherwise their first entry that is not zero is 1.
        """
        if all(type(c) is Fraction for gate in self.gates for c in (gate.a, gate.b)):
            return self._integer_points()
        result: list[_Scaled] = []
        for form in self.forms():
            scale = next((c for c in form if c != 0), None)
            if scale is None:
                result.append(None)
            else:
                result.append((scale, tuple(c if c == 0 else c / scale for c in form)))
        return result

    def _integer_points(self) -> list[_Scaled]:
        """Do the same where all constants are fractions."""
        result: list[tuple[Fraction, tuple[int, ...]] | None] = [
            (ONE, tuple([int(k == j) for k in range(self.width)])) for j in range(self.width)
        ]
        for a, x, b, y in cast("Iterable[tuple[Fraction, int, Fraction, int]]", self.gates):
            first, second = result[x], result[y]
            if first is None or second is None:
                factor, other = (b, second) if first is None else (a, first)
                result.append(None if other is None else (factor * other[0], other[1]))
                continue
            (s, p), (t, q) = first, second
            f, g = a * s, b * t
            top, low = f.numerator * g.denominator, g.numerator * f.denominator
            form = [top * c + low * d for c, d in zip(p, q)]
            divisor = gcd(*form)
            if divisor == 0:
                result.append(None)
            else:
                if next(c for c in form if c) < 0:
                    divisor = -divisor
                point = tuple([c // divisor for c in form])
                result.append((Fraction(divisor, f.denominator * g.denominator), point))
        return cast("list[_Scaled]", result)

    def to_matrix(self) -> Matrix:
        """The exact matrix, one row per output."""
        rows = self.forms()
        zero: tuple[Scalar, ...] = (Fraction(0),) * self.width
        return tuple(
            zero if out is None else tuple(out[0] * entry for entry in rows[out[1]])
            for out in self.outputs
        )

    def scaled(
        self, outputs: Sequence[Scalar], inputs: Sequence[Scalar] | None = None
    ) -> GateNetwork:
        """The network whose outputs, and inputs if given, are multiplied by these factors."""
        factor: list[Scalar] = [*(inputs or [ONE] * self.width), *[ONE] * len(self.gates)]
        gates = [Gate(a * factor[x], x, b * factor[y], y) for a, x, b, y in self.gates]
        results = [
            None if out is None else (scale * out[0] * factor[out[1]], out[1])
            for scale, out in zip(outputs, self.outputs)
        ]
        return GateNetwork(self.width, tuple(gates) if inputs else self.gates, tuple(results))

    def transposed(self) -> GateNetwork:
        """The network of the transposed matrix: every edge turned round (as FFTW's genfft does).

        What was read twice is now a sum and the other way round, so the number of gates changes
        only by the difference between outputs and inputs, and a method that finds nothing more to
        share in a matrix may still find it in the transposed one.
        """
        build = Builder(len(self.outputs))
        arriving: list[list[Signal]] = [[] for _ in range(self.width + len(self.gates))]
        for i, out in enumerate(self.outputs):
            if out is not None:
                arriving[out[1]].append((out[0], i))
        value: list[Signal | None] = [None] * self.width
        for node in reversed(range(len(arriving))):
            total = build.sum(arriving[node])
            if node < self.width:
                value[node] = total
            elif total is not None:
                a, x, b, y = self.gates[node - self.width]
                arriving[x].append((a * total[0], total[1]))
                arriving[y].append((b * total[0], total[1]))
        return build.network(value)

    def compact(self) -> GateNetwork:
        """The same outputs with every linear form computed once, up to scale, if it is needed."""
        build = Builder(self.width)
        # form up to scale -> its scale where it was met first, new node
        first: dict[tuple[object, ...], Signal] = {}
        signal: list[Signal | None] = []  # of every old node: constant, new node
        for node, scaled in enumerate(self._points()):
            if scaled is None:
                signal.append(None)
                continue
            scale, key = scaled
            if key in first:
                first_scale, new = first[key]
                signal.append((scale / first_scale, new))
                continue
            if node >= self.width:
                a, x, b, y = self.gates[node - self.width]
                total = cast(Signal, build.add(_times(a, signal[x]), _times(b, signal[y])))
            else:
                total = (ONE, node)
            first[key] = (scale / total[0], total[1])
            signal.append(total)
        outputs = [None if out is None else _times(out[0], signal[out[1]]) for out in self.outputs]
        return build.network(outputs)


def unit(width: int, j: int) -> tuple[Scalar, ...]:
    """The j-th unit row."""
    return tuple(ONE if k == j else Fraction(0) for k in range(width))


def combine(a: Scalar, x: Iterable[Scalar], b: Scalar, y: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """``a*x + b*y`` entry by entry, cheap where entries are zero or constants are one."""
    return tuple(
        (p if a == 1 else a * p)
        if q == 0
        else ((q if b == 1 else b * q) if p == 0 else a * p + b * q)
        for p, q in zip(x, y)
    )


def _times(factor: Scalar, signal: Signal | None) -> Signal | None:
    return None if signal is None else (factor * signal[0], signal[1])


class Builder:
    """Grows a network; a signal is ``(constant, node)`` and None is zero.

    >>> build = Builder(2)
    >>> total = build.add((Fraction(2), 0), (Fraction(-4), 1))
    >>> [str(c) for c in build.network([total]).to_matrix()[0]]
    ['2', '-4']
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.gates: list[Gate] = []
        self.depth = [0] * width  # of every node: gates on the longest path to it
        self._node: dict[tuple[int, int, Scalar], int] = {}  # x, y, ratio -> x + ratio * y

    def add(self, p: Signal | None, q: Signal | None) -> Signal | None:
        """The signal ``p + q``; a combination that exists up to scale is reused."""
        if p is None or q is None:
            return q if p is None else p
        if p[1] == q[1]:
            total = p[0] + q[0]
            return None if total == 0 else (total, p[1])
        if p[1] > q[1]:
            p, q = q, p
        ratio = q[0] / p[0]
        key = (p[1], q[1], ratio)
        if key not in self._node:
            self._node[key] = self.width + len(self.gates)
            self.gates.append(Gate(ONE, p[1], ratio, q[1]))
            self.depth.append(1 + max(self.depth[p[1]], self.depth[q[1]]))
        return p[0], self._node[key]

    def sum(self, signals: Iterable[Signal | None]) -> Signal | None:
        """The sum of signals, as a tree that is as shallow as the depths of its leaves allow."""
        waiting = [s for s in signals if s is not None]
        if not waiting:
            return None
        waiting.sort(key=lambda s: (self.depth[s[1]], s[1]))
        while len(waiting) > 1:
            total = self.add(waiting[0], waiting[1])
            waiting = waiting[2:]
            if total is not None:
                level = self.depth[total[1]]
                later = (i for i, s in enumerate(waiting) if self.depth[s[1]] > level)
                waiting.insert(next(later, len(waiting)), total)
        return waiting[0] if waiting else None

    def chain(self, signals: Iterable[Signal | None]) -> Signal | None:
        """The sum of signals from left to right."""
        total: Signal | None = None
        for signal in signals:
            total = self.add(total, signal)
        return total

    def embed(self, network: GateNetwork, signals: Iterable[Signal | None]) -> list[Signal | None]:
        """The outputs of ``network`` applied to ``signals``, as signals of this builder."""
        value = list(signals)
        for a, x, b, y in network.gates:
            value.append(self.add(_times(a, value[x]), _times(b, value[y])))
        return [None if out is None else _times(out[0], value[out[1]]) for out in network.outputs]

    def network(self, outputs: Sequence[Signal | None]) -> GateNetwork:
        """The finished network, without the gates that no output needs."""
        needed = {out[1] for out in outputs if out is not None}
        for node in reversed(range(self.width, self.width + len(self.gates))):
            if node in needed:
                gate = self.gates[node - self.width]
                needed.update((gate.x, gate.y))
        number = {node: node for node in range(self.width)}
        gates: list[Gate] = []
        for k, (a, x, b, y) in enumerate(self.gates):
            if self.width + k in needed:
                number[self.width + k] = self.width + len(gates)
                gates.append(Gate(a, number[x], b, number[y]))
        kept = tuple(None if out is None else (out[0], number[out[1]]) for out in outputs)
        return GateNetwork(self.width, tuple(gates), kept)
