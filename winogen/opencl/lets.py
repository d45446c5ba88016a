"""Names for what indices have in common, so that a kernel computes it once and reads well."""

from __future__ import annotations

from dataclasses import dataclass, field

from winogen.codegen.devices.expressions import (
    Binary,
    Expr,
    FunctionCall,
    Name,
    Number,
    Select,
    expr,
)
from winogen.codegen.devices.statements import Let, Statement
from winogen.opencl.indices import Bounds, names_in, quotient, remainder, sum_of, terms_of


@dataclass
class Lets:
    """Statements of a block that name integers, with what is known of these.

    Whoever makes the block puts ``statements`` at its beginning, when all of it is made.

    >>> lets = Lets()
    >>> i = lets.let("i", Name("a") + Name("b"), 12)
    >>> lets.read(i // 5 * 4), lets.read(i // 5 + 1)
    (Binary(op='*', left=Name(name='i_by_5', real=False, lanes=1), right=Number(value=4)), \
Binary(op='+', left=Name(name='i_by_5', real=False, lanes=1), right=Number(value=1)))
    >>> len(lets.statements)
    2
    """

    bounds: Bounds = field(default_factory=Bounds)
    statements: list[Statement] = field(default_factory=list)
    outside: Lets | None = None
    taken: set[str] = field(default_factory=set)  # names of all blocks of the kernel
    _known: dict[Expr, Expr] = field(default_factory=dict)

    def inner(self) -> Lets:
        """Return those of a block within this one, which sees all names of this one."""
        return Lets(Bounds(self.bounds), [], self, self.taken)

    def let(self, name: str, value: Expr, end: int) -> Expr:
        """Name an integer that stays below ``end``; 0 if nothing else does."""
        if end == 1:
            return Number(0)
        if isinstance(value, Number | Name):
            return value
        one = Let(name, self._parts(value) if _is_divided(value) else self.read(value))
        self.statements.append(one)
        self.taken.add(name)
        self.bounds[one.read] = end
        if _is_divided(value):
            self._known[value] = one.read
        return one.read

    def loop(self, name: str, end: int) -> Expr:
        """Return the variable of a loop from 0 to ``end``; 0 where it runs once."""
        if end == 1:
            return Number(0)
        self.bounds[Name(name)] = end
        return Name(name)

    def read(self, value: Expr) -> Expr:
        """Return the same integer or condition, with names for what is more than a sum."""
        match value:
            case Name() | Number():
                return value
            case Binary(op) if op not in ("+", "-", "*", "//", "%"):
                return self._parts(value)
        terms, constant = terms_of(value)
        return sum_of({self._atom(atom): count for atom, count in terms.items()}, constant)

    def _parts(self, value: Expr) -> Expr:
        """The same operation on parts that are read."""
        match value:
            case Binary(op, left, right):
                return Binary(op, self.read(left), self.read(right))
            case Select(condition, yes, no):
                return Select(self.read(condition), self.read(yes), self.read(no))
            case FunctionCall(function, arguments):
                return FunctionCall(function, tuple(map(self.read, arguments)))
        raise TypeError(f"no operation on parts: {value}")

    def _atom(self, atom: Expr) -> Expr:
        if not (_is_divided(atom) or isinstance(atom, Select | FunctionCall)):
            return atom
        if atom in self._known:
            return self._known[atom]
        if self.outside is not None and self._is_outside(atom):
            name = self.outside._atom(atom)
            self.bounds.update(self.outside.bounds)
            return name
        value = self._parts(atom)
        one = Let(self.free(_described(value)), value)
        self.statements.append(one)
        self._known[atom] = one.read
        most = self.bounds.most(atom)
        if most is not None:
            self.bounds[one.read] = most + 1
        return one.read

    def _is_outside(self, atom: Expr) -> bool:
        """Whether all names are known outside, too."""
        assert self.outside is not None
        return all(Name(name) in self.outside.bounds for name in names_in(atom))

    def free(self, name: str) -> str:
        """Return a name that no block of the kernel has, and take it."""
        number, free = 2, name
        while free in self.taken:
            number, free = number + 1, f"{name}_{number}"
        self.taken.add(free)
        return free

    def digits(self, value: Expr, sizes: tuple[int, ...], names: tuple[str, ...]) -> list[Expr]:
        """Return the indices along axes of these sizes of a number counted over all of them."""
        found: list[Expr] = []
        for size, name in reversed([*zip(sizes, names)]):
            is_first = len(found) == len(sizes) - 1
            rest = value if is_first else remainder(value, size, self.bounds)
            found.append(self.let(name, rest, size))
            value = quotient(value, size, self.bounds)
        return found[::-1]


def _is_divided(value: Expr) -> bool:
    return isinstance(value, Binary) and value.op in ("//", "%")


def _described(value: Expr) -> str:
    """A name that says what is divided, and by what."""
    if not (isinstance(value, Binary) and isinstance(value.right, Number)):
        return "source"
    base = value.left.name if isinstance(value.left, Name) else "at"
    return f"{base}_{'by' if value.op == '//' else 'in'}_{value.right.value}"


def apart(value: Expr, moving: frozenset[str]) -> tuple[Expr, Expr]:
    """Return an integer as a sum of what has none of some names, and of what has."""
    terms, constant = terms_of(value)
    still = {atom: n for atom, n in terms.items() if not names_in(atom) & moving}
    moved = {atom: n for atom, n in terms.items() if names_in(atom) & moving}
    return sum_of(still, constant), sum_of(moved)


def chosen(value: int | Expr) -> int:
    """Return a length as a number."""
    known = expr(value)
    assert isinstance(known, Number) and isinstance(known.value, int), "all parameters are decided"
    return known.value
