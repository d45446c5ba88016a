"""What statements and expressions are made of: the parts of each, and the names that they use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

from winogen.codegen.devices.expressions import Element, Expr, Load, Name
from winogen.codegen.devices.statements import (
    Assign,
    Barrier,
    Declare,
    ForLoop,
    If,
    Let,
    Statement,
    Store,
    TransformCall,
)


def parts(value: Expr) -> tuple[Expr, ...]:
    """Return the expressions that an expression is made of."""
    held = (getattr(value, one.name) for one in fields(value))  # type: ignore[arg-type]
    flat = (item for one in held for item in (one if isinstance(one, tuple) else (one,)))
    return tuple(item for item in flat if isinstance(item, Expr))


def within(value: Expr) -> Iterator[Expr]:
    """All expressions within one, itself first."""
    yield value
    for part in parts(value):
        yield from within(part)


def values(one: Statement) -> tuple[Expr, ...]:
    """Return the expressions of a statement, without those of the statements in it."""
    match one:
        case Let(_, value):
            return (value,)
        case Declare():
            return () if one.value is None else (one.value,)
        case Assign(target, value):
            return target, value
        case Store():
            return one.index, one.value
        case ForLoop():
            return one.start, one.stop, one.step
        case If():
            return (one.condition,)
        case TransformCall():
            return tuple(
                Name(array) if isinstance(array, str) else array
                for array in (one.source, one.target)
            )
    return ()


def bodies(one: Statement) -> tuple[Sequence[Statement], ...]:
    """Return the lists of statements within one."""
    match one:
        case ForLoop():
            return (one.body,)
        case If():
            return one.body, one.otherwise
    return ()


def all_statements(body: Iterable[Statement]) -> Iterator[Statement]:
    """All statements, each before those within it."""
    for one in body:
        yield one
        for inner in bodies(one):
            yield from all_statements(inner)


def all_expressions(body: Iterable[Statement]) -> Iterator[Expr]:
    """All expressions of statements and of those within them."""
    for one in all_statements(body):
        for value in values(one):
            yield from within(value)


def variables(body: Iterable[Statement]) -> set[str]:
    """Return the names of variables that statements use; arrays of kernels are not among them."""
    return {name for value in all_expressions(body) if (name := variable(value))}


def variables_of(value: Expr) -> set[str]:
    """Return the names of variables that an expression uses."""
    return {name for one in within(value) if (name := variable(one))}


def variable(value: Expr) -> str:
    """The variable that an expression reads or writes itself, if it does; else ""."""
    match value:
        case Name(name):
            return name
        case Element(array):
            return array
    return ""


def arrays_used(body: Iterable[Statement]) -> set[str]:
    """Return the names of kernels' arrays that statements read or write."""
    body = tuple(body)
    read = {one.array for one in all_expressions(body) if isinstance(one, Load)}
    return read | {one.array for one in all_statements(body) if isinstance(one, Store)}


def defined(body: Iterable[Statement]) -> set[str]:
    """Return the names of variables that statements define, of loops, too."""
    return {one.name for one in all_statements(body) if isinstance(one, (Let, Declare, ForLoop))}


def waits(one: Statement) -> bool:
    """Whether a statement is a barrier or has one within."""
    return any(isinstance(inner, Barrier) for inner in all_statements((one,)))


def loads(value: Expr) -> bool:
    """Whether an expression reads memory or variables that may change."""
    return any(isinstance(one, (Load, Element)) for one in within(value))
