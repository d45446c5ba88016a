"""Straight-line programs: a linear transform as a list of two-operand statements.

A ``Program`` is what every later stage consumes: the emitter prints it, the evaluators run it,
the counters count it. It is immutable and exact, so that every pass can be checked by comparing two
matrices. Only statements that one machine instruction can execute exist:

    t = x + y      t = x - y      t = c*x      t = c*x + y      t = c*x - y      (c exact, any sign)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from winogen.errors import InvalidValue, VerificationError

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix, Scalar

Rows: TypeAlias = Sequence[Sequence[Any]]  # a matrix of whatever ``exact`` takes

ZERO = "0"  # the name of an output that is zero whatever the inputs are


def exact(value: Scalar | int | str) -> Scalar:
    """``value`` as an exact scalar: int, Fraction or text becomes Fraction, the rest passes.

    Text that is no rational ("sqrt(2)/2") is handed to the algebra station.

    >>> exact("-5/2")
    Fraction(-5, 2)
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, str):
        try:
            return Fraction(value)
        except ValueError:
            from winogen.algebra.scalar import as_scalar

            return as_scalar(value)
    return value


def magnitude(scalar: Scalar) -> Scalar:
    """The absolute value of an exact scalar."""
    return cast("Scalar", abs(scalar))


@dataclass(frozen=True)
class Term:
    """``coefficient * operand``; the coefficient is exact and never zero."""

    coefficient: Scalar
    operand: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficient", exact(self.coefficient))
        if self.coefficient == 0:
            raise InvalidValue(f"coefficient of {self.operand}: got 0; allowed: any other scalar")

    @cached_property
    def is_unit(self) -> bool:
        """Whether the coefficient is 1 or -1, which costs no multiplication."""
        return self.coefficient == 1 or self.coefficient == -1

    @property
    def magnitude(self) -> Scalar:
        """The absolute value of the coefficient."""
        return magnitude(self.coefficient)


@dataclass(frozen=True)
class Statement:
    """``target = term`` or ``target = term + term``, at most one coefficient other than ±1.

    Raises ``InvalidValue`` for any other shape.

    >>> print(Statement("v1", (Term(Fraction(-5, 4), "d2"), Term(1, "d4"))))
    v1 = d4 - 5/4*d2
    """

    target: str
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        if len(self.terms) not in (1, 2):
            raise InvalidValue(f"terms of {self.target}: got {len(self.terms)}; allowed: 1 or 2")
        if len(self.terms) == 2:
            if self.terms[0].operand == self.terms[1].operand:
                raise InvalidValue(
                    f"terms of {self.target}: got {self.terms[0].operand} twice;"
                    " allowed: two different operands"
                )
            if not any(term.is_unit for term in self.terms):
                raise InvalidValue(
                    f"terms of {self.target}: got two constants; allowed: one other than 1 and -1"
                )

    @property
    def operands(self) -> tuple[str, ...]:
        """The names read by the statement."""
        return tuple(term.operand for term in self.terms)

    @property
    def constant(self) -> Scalar | None:
        """The coefficient other than ±1, or None."""
        for term in self.terms:
            if not term.is_unit:
                return term.coefficient
        return None

    def __str__(self) -> str:
        # A leading minus is avoided where one of the terms is positive: "d4 - d2", not "-d2 + d4".
        terms = sorted(self.terms, key=lambda term: term.coefficient < 0)
        text = ""
        for term in terms:
            size = term.magnitude
            factor = term.operand if size == 1 else f"{_factor_text(size)}*{term.operand}"
            if term.coefficient < 0:
                text += f" - {factor}" if text else f"-{factor}"
            else:
                text += f" + {factor}" if text else factor
        return f"{self.target} = {text}"


def _factor_text(scalar: Scalar) -> str:
    text = str(scalar)
    return f"({text})" if "+" in text or "-" in text else text


@dataclass(frozen=True)
class Counts:
    """What a program costs (see ``derive --format json``).

    ``add``: additions and subtractions when nothing is fused (a lone negation counts as one).
    ``mul``: multiplications by constants other than ±1. ``fma``: statements ``c*x ± y``.
    ``instructions``: statements, every one a single instruction once fused: add + mul - fma.
    ``registers``: most values alive at once, an input being loaded just before its first use and
    an output stored as soon as it is computed; constants are memory operands.
    """

    add: int
    mul: int
    fma: int
    instructions: int
    registers: int

    def to_dict(self) -> dict[str, int]:
        """The counts as a plain dict, in the order of the file format."""
        return {
            "add": self.add,
            "mul": self.mul,
            "fma": self.fma,
            "instructions": self.instructions,
            "registers": self.registers,
        }


@dataclass(frozen=True)
class Program:
    """Statements in execution order; each output is an input, a target, or "0".

    Every target is assigned once, before it is read. Raises ``InvalidValue`` otherwise.

    >>> two = Program(("d0", "d1"), (Statement("v0", (Term(1, "d0"), Term(-2, "d1"))),),
    ...               ("v0", "d1"))
    >>> two.run([5, 1])
    [Fraction(3, 1), Fraction(1, 1)]
    >>> two.counts().instructions
    1
    """

    inputs: tuple[str, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[str, ...]
    _matrix: Matrix | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("inputs", "statements", "outputs"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        defined = set(self.inputs)
        if len(defined) != len(self.inputs) or ZERO in defined:
            raise InvalidValue(f"inputs: got {self.inputs}; allowed: different names other than 0")
        for statement in self.statements:
            for operand in statement.operands:
                if operand not in defined:
                    raise InvalidValue(
                        f"statement {statement}: got undefined operand {operand};"
                        " allowed: inputs and earlier targets"
                    )
            if statement.target in defined or statement.target == ZERO:
                raise InvalidValue(
                    f"statement {statement}: got target {statement.target} again;"
                    " allowed: a new name"
                )
            defined.add(statement.target)
        for name in self.outputs:
            if name not in defined and name != ZERO:
                raise InvalidValue(f"outputs: got undefined {name}; allowed: inputs, targets, 0")

    def to_matrix(self) -> Matrix:
        """The exact matrix (one row per output, one column per input) that the program computes.

        Computed once by running the program on the unit vectors symbolically; O(statements·inputs).
        """
        if self._matrix is None:
            object.__setattr__(self, "_matrix", _matrix_of(self))
        return cast("Matrix", self._matrix)

    def verify(self, matrix: Rows) -> bool:
        """True when the program computes ``matrix`` exactly.

        Raises ``VerificationError`` naming the first entry that differs.
        """
        ours = self.to_matrix()
        shape = (len(matrix), len(matrix[0]) if matrix else len(self.inputs))
        if (len(ours), len(self.inputs)) != shape:
            raise VerificationError(
                f"program: got {len(ours)} outputs of {len(self.inputs)} inputs;"
                f" its matrix is {shape[0]} x {shape[1]}"
            )
        for i, (row, claim) in enumerate(zip(ours, matrix)):
            for j, (a, b) in enumerate(zip(row, claim)):
                if a != exact(b):
                    raise VerificationError(f"program: entry ({i}, {j}) is {a}; its matrix has {b}")
        return True

    def counts(self) -> Counts:
        """Operation counts, taken from the statements; see ``Counts``."""
        add = mul = fma = 0
        for statement in self.statements:
            constant = statement.constant is not None
            two = len(statement.terms) == 2
            mul += constant
            fma += constant and two
            add += two or not constant
        return Counts(add, mul, fma, len(self.statements), max_live(self))

    def depth(self) -> int:
        """Instructions on the longest path from an input to an output (the critical path)."""
        level = dict.fromkeys((*self.inputs, ZERO), 0)
        for statement in self.statements:
            level[statement.target] = 1 + max(level[name] for name in statement.operands)
        return max((level[name] for name in self.outputs), default=0)

    def run(self, values: Any) -> Any:
        """The outputs for ``values``, whose first axis (or items) are the inputs.

        A numpy array is computed in its own dtype, statement by statement: each constant is rounded
        once from its exact value, then one multiplication and one addition, so compiled C without
        contraction gives the same bits. Integer arrays and plain sequences are computed exactly.
        Raises ``InvalidValue`` when the number of inputs differs.
        """
        from winogen.program.evaluate import evaluate

        return evaluate(self, values)

    def to_json(self) -> dict[str, list]:
        """A JSON-ready dict; scalars are strings. Inverse of ``from_json``."""
        return {
            "inputs": list(self.inputs),
            "statements": [
                [s.target, *([str(t.coefficient), t.operand] for t in s.terms)]
                for s in self.statements
            ],
            "outputs": list(self.outputs),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Program:
        """The program of a dict made by ``to_json``; rational ones need no sympy."""
        statements = tuple(
            Statement(target, tuple(Term(exact(c), name) for c, name in terms))
            for target, *terms in data["statements"]
        )
        return cls(tuple(data["inputs"]), statements, tuple(data["outputs"]))

    def __str__(self) -> str:
        lines = [str(statement) for statement in self.statements]
        return "\n".join([*lines, f"outputs: {', '.join(self.outputs)}"])


def _matrix_of(program: Program) -> Matrix:
    zero, one = Fraction(0), Fraction(1)
    count = len(program.inputs)
    rows: dict[str, tuple[Scalar, ...]] = {ZERO: (zero,) * count}
    for j, name in enumerate(program.inputs):
        rows[name] = tuple(one if k == j else zero for k in range(count))
    for statement in program.statements:
        row: list[Scalar] = [zero] * count
        for term in statement.terms:
            for j, entry in enumerate(rows[term.operand]):
                if entry != 0:
                    row[j] = row[j] + term.coefficient * entry
        rows[statement.target] = tuple(row)
    return tuple(rows[name] for name in program.outputs)


def max_live(program: Program) -> int:
    """The most values alive at once; the definition stands at ``Counts``.

    A target may take the register of an operand that is read for the last time.
    """
    last_use = {}
    for index, statement in enumerate(program.statements):
        for name in statement.operands:
            last_use[name] = index
    alive: set[str] = set()
    peak = 0
    for index, statement in enumerate(program.statements):
        alive.update(statement.operands)
        peak = max(peak, len(alive))
        alive.difference_update(n for n in statement.operands if last_use[n] == index)
        # The target needs a register even when all it does is to be stored.
        peak = max(peak, len(alive) + 1)
        if statement.target in last_use:
            alive.add(statement.target)
    return peak
