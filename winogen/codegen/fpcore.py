"""Transforms as FPCore 2.0, which tools that analyse rounding read: Herbie, Daisy, FPTaylor.

An FPCore has one value, so each output of a transform is a core of its own, with the statements
that it needs, in the order of the program. Behind them every output of the whole convolution stands
as one core of d and g. FPBench's exporter (https://fpbench.org) turns cores into the languages of
tools that do not read them as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from winogen.codegen.ctext import names_of
from winogen.codegen.dialects import decimal, head
from winogen.program.ir import ZERO, Statement, Term
from winogen.program.kinds import KINDS

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar
    from winogen.codegen.transform import Transform

SUFFIX = "fpcore"
_COMMENT = ";;"
# Values that are neither inputs nor outputs of a transform: one letter for each.
_LOCALS = {"input": "r", "filter": "s", "output": "t"}
_DIGITS = 40  # of a root, which FPCore could only compute with a rounding


class Binding(NamedTuple):
    """``[name value]`` of a ``let*``, and the names that the value reads."""

    name: str
    value: str
    reads: tuple[str, ...]


def render(transform: Transform, command: str = "") -> str:
    """Return the FPCores of F(m, r): of B^T, of G, of A^T, and of y[i] as a function of d and g.

    Arguments are d0, d1, … and g0, g1, …, between -1 and 1, in float32; constants are exact.
    ``command``: what the first line says regenerates it. The same arguments give the same bytes.

    >>> from winogen.codegen.transforms import load
    >>> print(render(load(2, 3)).split("\\n\\n")[-3], end="")
    (FPCore winogen_f2_3_output_1 (p0 p1 p2 p3)
      :name "F(2, 3): y1 of A^T p"
      :precision binary32
      :pre (and (<= -1 p0 1)
                (<= -1 p1 1)
                (<= -1 p2 1)
                (<= -1 p3 1))
      (let* ([t1 (- p1 p2)])
        (+ p3 t1)))
    """
    for kind, matrix in transform.matrices.items():
        transform.programs[kind].verify(matrix)
    command = command or f"winogen derive {transform.m} {transform.r} --format fpcore"
    texts = [head(transform, _COMMENT, command) + f"\n{_COMMENT}\n" + _NOTE]
    shape = f"F({transform.m}, {transform.r})"
    name = f"winogen_{transform.name}"
    for kind, (_, symbol, source, target) in KINDS.items():
        program = transform.programs[kind]
        bindings = tuple(_bindings(transform, kind))
        for i in range(len(program.outputs)):
            title = f"{shape}: {target}{i} of {symbol} {source}"
            text = _core(f"{name}_{kind}_{i}", program.inputs, title, bindings, f"{target}{i}")
            texts.append(text)
    whole = tuple(_whole(transform))
    arguments = [*transform.programs["input"].inputs, *transform.programs["filter"].inputs]
    for i in range(transform.m):
        texts.append(_core(f"{name}_y{i}", arguments, f"{shape}: y{i} of d and g", whole, f"y{i}"))
    return "\n\n".join(texts) + "\n"


_NOTE = f"""\
{_COMMENT} Each core is one output, in float32, for inputs between -1 and 1: change :precision and
{_COMMENT} :pre as you like. Kernels of winogen transform filters in float64 and round once, so that
{_COMMENT} their error is less than that of the last cores, where all is computed in one format."""


def _whole(transform: Transform) -> Iterator[Binding]:
    """The convolution of one tile: both transforms, products, and the transform of these."""
    yield from _bindings(transform, "input")
    yield from _bindings(transform, "filter")
    for i, name in enumerate(transform.programs["output"].inputs):
        yield Binding(name, f"(* v{i} u{i})", (f"v{i}", f"u{i}"))
    yield from _bindings(transform, "output")


def _bindings(transform: Transform, kind: str) -> Iterator[Binding]:
    """The statements of a program, and those of its outputs that are no statements."""
    program, target = transform.programs[kind], KINDS[kind].target
    names = names_of(program, target)
    inner = {n: f"{_LOCALS[kind]}{n[1:]}" for n in names.values() if n.startswith("t")}
    names = {key: inner.get(name, name) for key, name in names.items()}
    for statement in program.statements:
        reads = tuple(names[name] for name in statement.operands)
        yield Binding(names[statement.target], _value(statement, reads), reads)
    for i, name in enumerate(program.outputs):
        if name == ZERO:
            yield Binding(f"{target}{i}", "0", ())
        elif names[name] != f"{target}{i}":
            yield Binding(f"{target}{i}", names[name], (names[name],))


def _core(
    name: str, arguments: Sequence[str], title: str, bindings: Sequence[Binding], output: str
) -> str:
    """One core, whose value is that of ``output``; bindings that it does not need are left out."""
    needed, kept = {output}, []
    for binding in reversed(bindings):
        if binding.name in needed:
            needed.update(binding.reads)
            kept.append(binding)
    body, *before = kept
    ranges = [f"(<= -1 {argument} 1)" for argument in arguments]
    lines = [
        f"(FPCore {name} ({' '.join(arguments)})",
        f'  :name "{title}"',
        "  :precision binary32",
        "  :pre (and " + "\n            ".join(ranges) + ")",
    ]
    if not before:
        return "\n".join([*lines, f"  {body.value})"])
    pairs = [f"[{binding.name} {binding.value}]" for binding in reversed(before)]
    lines.append("  (let* (" + "\n         ".join(pairs) + ")")
    return "\n".join([*lines, f"    {body.value}))"])


def _value(statement: Statement, reads: Sequence[str]) -> str:
    """One or two terms, the positive ones first, as all other languages have them."""
    terms = sorted(zip(statement.terms, reads), key=lambda pair: pair[0].coefficient < 0)
    (first, _), *_ = terms
    parts = [_scaled(term, name) for term, name in terms]
    if len(parts) == 1:
        return f"(- {parts[0]})" if first.coefficient < 0 else parts[0]
    if first.coefficient < 0:  # both are negative
        return f"(- (- {parts[0]}) {parts[1]})"
    return f"({'-' if terms[1][0].coefficient < 0 else '+'} {parts[0]} {parts[1]})"


def _scaled(term: Term, name: str) -> str:
    return name if term.is_unit else f"(* {_literal(term.magnitude)} {name})"


def _literal(value: Scalar) -> str:
    """A rational number as it is, a root to so many digits."""
    return str(value) if isinstance(value, Fraction) else decimal(value, _DIGITS)
