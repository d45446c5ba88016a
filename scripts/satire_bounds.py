"""The bound of `winogen.rounding` beside that of Satire, a tool that bounds rounding of programs.

python scripts/satire_bounds.py              # a sum of 1,024 numbers, FFTs of 1,024 and 4,096
python scripts/satire_bounds.py --small      # an FFT of 64 instead

Programs, ranges and format are those of Satire's large benchmarks
(https://github.com/arnabd88/Satire, commit 8a4816a): float64, inputs that were rounded. Its README
has the bound of the sum; of its FFTs it has the programs, whose bounds it leaves to be computed.
"""

import cmath
import sys
import time
from fractions import Fraction

import numpy as np

from winogen.program import Program, Statement, Term
from winogen.program.summation import ordered
from winogen.rounding.bounds import Growth, rounded_by

SATIRE_SUM = 1.2505552149377763e-12  # Reduction_1024, inputs in [-1, 1]
UNIT = 2.0**-53


def bound(program: Program) -> float:
    """The largest error of any output, for |inputs| <= 1 that are themselves rounded once."""
    growth = Growth.of_program(program)
    return rounded_by([(growth.roundings + 1, UNIT)]) * float(growth.matrix.sum(1).max())


class _Lines:
    """Statements of one real number each; None is a number that is always 0."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []

    def add(self, *terms: tuple[float, str | None]) -> str | None:
        kept = tuple(Term(Fraction(c), name) for c, name in terms if name and c)
        if not kept:
            return None
        name = f"t{len(self.statements)}"
        self.statements.append(Statement(name, kept))
        return name

    def product(self, w: complex, x: tuple) -> tuple:
        """W times a complex number, by four multiplications and two additions."""
        real = self.add((1, self.add((w.real, x[0]))), (-w.imag, x[1]))
        return real, self.add((1, self.add((w.imag, x[0]))), (w.real, x[1]))


def fourier(levels: int, equal_inputs: bool) -> Program:
    """A Fourier transform of 2^levels real numbers by radix 2; outputs are real parts, as Satire's.

    ``equal_inputs``: all are one input, whose size is then that of all: what a bound for inputs of
    one range needs, without a matrix of 4,096 columns.
    """
    count = 1 << levels
    lines = _Lines()
    inputs = ["x0"] if equal_inputs else [f"x{i}" for i in range(count)]
    x = [(inputs[0 if equal_inputs else int(f"{i:0{levels}b}"[::-1], 2)], None)
         for i in range(count)]  # fmt: skip
    if equal_inputs:
        x = [(lines.add((1, name)), None) for name, _ in x]
    for level in range(1, levels + 1):
        size = 1 << level
        for j in range(size // 2):
            w = cmath.exp(-2j * cmath.pi * j / size)
            w = {0: 1, size // 4: -1j}.get(j, w) if size > 2 else 1
            for first in range(j, count, size):
                low, high = x[first], lines.product(complex(w), x[first + size // 2])
                x[first] = tuple(lines.add((1, a), (1, b)) for a, b in zip(low, high))
                x[first + size // 2] = tuple(lines.add((1, a), (-1, b)) for a, b in zip(low, high))
    return Program(tuple(inputs), tuple(lines.statements), tuple(real or "0" for real, _ in x))


def seen(levels: int, trials: int = 8) -> float:
    """The largest error of that program on random inputs in [-1, 1], beside long double."""
    count = 1 << levels
    x = np.random.default_rng(0).uniform(-1, 1, (count, trials))
    y = fourier(levels, equal_inputs=False).run(x)
    full = x.astype(np.longdouble)
    turns = np.arange(count, dtype=np.longdouble) * (2 * np.arccos(np.longdouble(-1)) / count)
    cosines = np.cos(turns)
    exact = np.array([cosines[np.arange(count) * k % count] @ full for k in range(count)])
    return float(np.abs(y - exact).max())


def main(small: bool) -> None:
    start = time.perf_counter()
    ours = bound(ordered([[1] * 1024], "pairwise"))
    print(f"sum of 1024  ours {ours:.7e}  Satire {SATIRE_SUM:.7e}  ratio {ours / SATIRE_SUM:.8f}")
    for levels in (6,) if small else (10, 12):
        ours, error = bound(fourier(levels, equal_inputs=True)), seen(levels)
        print(f"FFT of {1 << levels:5} ours {ours:.3e}  seen {error:.1e}  ratio {ours / error:.0f}")
    print(f"{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main("--small" in sys.argv[1:])
