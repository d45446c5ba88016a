"""F(m, r) as files of Verilog: the transforms for numbers of so many bits, and testbenches."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from winogen.codegen.headers import matrix_lines
from winogen.codegen.verilog import hls
from winogen.codegen.verilog.bench import VECTORS, bench
from winogen.codegen.verilog.circuit import circuit
from winogen.codegen.verilog.design import Design, Grid, TransformDesign, design, streamed
from winogen.errors import InvalidValue
from winogen.fixed import adders, integral
from winogen.program.kinds import KINDS
from winogen.program.widths import Range, signed

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.algebra.scalar import Scalar

STAGES, DELAY, FRACTION = 64, 64, 24  # the most of each
_WIDTH = 97  # of a line of comment


@dataclass(frozen=True)
class ModuleOptions:
    """What the modules are to be.

    ``bits``, ``filter_bits``: of inputs and filters. ``channels``: whose products are summed before
    the output transform. ``axes``: 1, or 2 for tiles of both. ``folded``: a column a cycle.
    ``stages``: of each pass, 0 for none. ``delay``: in place of it, the most adders from register
    to register. ``fraction``: None for exact integers, else coefficients are rounded to so many
    binary places, and so are results, to integers.
    """

    bits: int = 8
    filter_bits: int = 8
    channels: int = 1
    axes: int = 1
    folded: bool = False
    stages: int = 0
    delay: int | None = None
    fraction: int | None = None

    def __post_init__(self) -> None:
        if self.folded and self.axes == 1:
            raise InvalidValue("folded: got it for one axis; allowed: with 2d, for both")
        if self.delay is not None and self.stages:
            raise InvalidValue("delay: got it with pipeline; allowed: one of them")
        for name, value, most in (
            ("pipeline", self.stages or 1, STAGES),
            ("delay", 1 if self.delay is None else self.delay, DELAY),
            ("fraction", 1 if self.fraction is None else self.fraction, FRACTION),
        ):
            if not 1 <= value <= most:
                raise InvalidValue(f"{name}: got {value}; allowed: 1 to {most}")


def transforms(
    algorithm: BilinearAlgorithm, name: str, options: ModuleOptions
) -> dict[str, tuple[TransformDesign, RoundingEffect | None]]:
    """Return the three transforms, and what is rounded in them: {kind: (Transform, Rounding)}.

    ``name``: what their modules begin with. Raises InvalidValue for irrational coefficients where
    ``options`` have no ``fraction``.
    """
    dropped = options.fraction or 0
    if options.fraction is None:
        _check_rational(algorithm)
        matrices = integral(algorithm).matrices
    else:
        matrices = {
            kind: tuple(tuple(_nearest(c, dropped) for c in row) for row in rows)
            for kind, rows in algorithm.matrices.items()
        }
    programs = adders.search(matrices, bits=options.bits)
    signs = adders.signs(matrices, programs)
    matrices = adders.with_signs(matrices, signs)
    found: dict[str, TransformDesign] = {}
    suffix = ("_2d" if options.axes == 2 else "") + ("_folded" if options.folded else "")
    for kind, matrix in matrices.items():
        if kind == "output":
            made = [_results(found[one]) for one in ("input", "filter")]
            inputs: Grid = tuple(
                tuple(_product(v, u, options.channels) for v, u in zip(*rows))
                for rows in zip(*made)
            )
        else:
            bits = options.bits if kind == "input" else options.filter_bits
            n = len(matrix[0])
            inputs = ((signed(bits),) * n,) * (n if options.axes == 2 else 1)
        found[kind] = TransformDesign(
            f"{name}_{kind}{suffix}", kind, matrix, programs[kind], inputs, options.axes, dropped
        )
    if options.fraction is None:
        return {kind: (one, None) for kind, one in found.items()}
    exact = adders.with_signs(algorithm.matrices, signs)
    return {kind: (one, rounding(one, exact[kind])) for kind, one in found.items()}


def _check_rational(algorithm: BilinearAlgorithm) -> None:
    for kind, rows in algorithm.matrices.items():
        for value in (value for row in rows for value in row):
            if not isinstance(value, Fraction):
                raise InvalidValue(
                    f"fraction: got none for the coefficient {value} in {KINDS[kind].symbol}; "
                    f"allowed: 1 to {FRACTION} bits, to which it is rounded"
                )


def _nearest(value: Scalar, places: int) -> int:
    return round(rational(value) * (1 << places))


def rational(value: Scalar) -> Fraction:
    """Return a number, or a fraction that is nearer to it than 2^-100."""
    if isinstance(value, Fraction):
        return value
    import sympy

    return Fraction(str(sympy.N(sympy.sympify(str(value)), 60)))


def _results(transform: TransformDesign) -> Grid:
    if transform.axes == 1:
        return (transform.after(transform.inputs[0]),)
    return tuple(transform.after(row) for row in transform.half)


def _product(one: Range, two: Range, channels: int) -> Range:
    ends = [channels * a * b for a in one for b in two]
    return Range(min(ends), max(ends))


@dataclass(frozen=True)
class RoundingEffect:
    """What rounding does: the largest error of a result, beside the exact transform.

    ``coefficient``: the largest error of a coefficient.
    """

    coefficient: Fraction
    error: Fraction

    def __str__(self) -> str:
        return (
            f"Coefficients are rounded, by at most {above(self.coefficient)}, and so are results, "
            f"to integers: none is further than {above(self.error)} from the exact transform."
        )


def above(value: Fraction) -> str:
    """Return a bound with three digits or so, rounded up.

    >>> above(Fraction(2, 3)), above(Fraction(1645, 1)), above(Fraction(1, 300))
    ('0.667', '1645', '0.00334')
    """
    if not value:
        return "0"
    scale = Fraction(10) ** (len(str(int(1 / value))) + 2 if value < 1 else 2)
    return f"{float(Fraction(-(-value * scale // 1)) / scale):.6g}"


def rounding(transform: TransformDesign, exact: Iterable[Iterable[Scalar]]) -> RoundingEffect:
    """Return the error of a transform whose matrix is ``exact``, rounded."""
    scale = 1 << transform.dropped
    off = [
        [abs(Fraction(c, scale) - rational(value)) for c, value in zip(row, values)]
        for row, values in zip(transform.matrix, exact)
    ]

    def after(line: Iterable[Range], errors: Iterable[Fraction]) -> list[Fraction]:
        """The errors behind a pass over numbers that have some already."""
        given = [(max(abs(one.low), abs(one.high)), error) for one, error in zip(line, errors)]
        half = Fraction(1, 2)
        return [
            sum(
                (miss * size + abs(Fraction(c, scale)) * error
                 for miss, c, (size, error) in zip(misses, row, given)),
                half,
            )
            for misses, row in zip(off, transform.matrix)
        ]  # fmt: skip

    none = [Fraction(0)] * len(transform.inputs[0])
    if transform.axes == 1:
        found = after(transform.inputs[0], none)
    else:
        columns = [after(column, none) for column in zip(*transform.inputs)]
        passed = zip(transform.half, zip(*columns))
        found = [error for line, errors in passed for error in after(line, errors)]
    return RoundingEffect(max(max(row) for row in off), max(found))


def designs(
    algorithm: BilinearAlgorithm, name: str, command: str, options: ModuleOptions
) -> dict[str, Design]:
    """Return the designs of the three transforms: {kind: Design}.

    ``name``: what modules begin with, after ``winogen_``. ``command``: what regenerates them, for
    their comments. Raises InvalidValue; VerificationError if the algorithm is wrong.
    """
    algorithm.verify()
    found = {}
    for kind, (transform, rounded) in transforms(algorithm, f"winogen_{name}", options).items():
        stages = options.stages
        if options.delay is not None:
            made = circuit(transform.program, KINDS[kind].target, transform.dropped)
            stages = max(1, -(-made.depth // options.delay))
        found[kind] = design(
            transform,
            stages=stages,
            folded=options.folded,
            head=_head(algorithm, transform, rounded, command),
        )
    return found


def _head(
    algorithm: BilinearAlgorithm,
    transform: TransformDesign,
    rounded: RoundingEffect | None,
    command: str,
) -> list[str]:
    symbol = KINDS[transform.kind].symbol
    origin = ", ".join(map(str, algorithm.moduli or algorithm.points or ()))
    lines = [f"Generated by `{command}`; do not edit.", ""]
    lines += [f"F({algorithm.m}, {algorithm.r}), the {transform.kind} transform."]
    if origin:
        lines += textwrap.wrap(f"{'Moduli' if algorithm.moduli else 'Points'}: {origin}.", _WIDTH)
    if rounded is None:
        scale = integral(algorithm).scale ** transform.axes
        whole = "" if scale == 1 else f", whose results are {scale} times those of F"
        lines += [f"All three transforms are of integers{whole}; nothing is rounded."]
        lines += ["", f"{symbol} =", *matrix_lines(transform.matrix)]
    else:
        lines += textwrap.wrap(str(rounded), _WIDTH)
        lines += ["", f"{symbol} * {1 << transform.dropped} =", *matrix_lines(transform.matrix)]
    return lines


def header(algorithm: BilinearAlgorithm, name: str, command: str, options: ModuleOptions) -> str:
    """Return the C++ header for high-level synthesis; arguments and errors as of `designs`."""
    algorithm.verify()
    made = transforms(algorithm, f"winogen_{name}", options)
    head = [f"Generated by `{command}`; do not edit."]
    for transform, rounded in made.values():
        head += ["", *_head(algorithm, transform, rounded, command)[2:]]
    return hls.render({kind: one for kind, (one, _) in made.items()}, head, f"winogen_{name}")


def modules(made: Mapping[str, Design]) -> dict[str, str]:
    """Return the files of all modules, one in each: {name of the file: text}."""
    found = {}
    for one in made.values():
        parts = list(one.modules)
        if one.protocol != "folded":
            parts.append(streamed(one))
        found.update({f"{part.name}.v": part.text for part in parts})
    return found


def benches(made: Mapping[str, Design], count: int = VECTORS) -> dict[str, str]:
    """Return the files of all testbenches, those of modules with a handshake included."""
    found = {}
    for one in made.values():
        found.update(bench(one, count=count))
        if one.protocol != "folded":
            found.update(bench(one, stream=True, count=count))
    return found
