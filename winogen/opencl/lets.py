"""Names for what indices have in common, so that a kernel computes it once and reads well."""

from __future__ import annotations

from dataclasses import dataclass, field

from winogen.codegen.devices.expressions import Binary, Expr, Name, Number, expr
from winogen.codegen.devices.statements import Let, Statement
from winogen.opencl.indices import Bounds, names_in, quotient, remainder, sum_of, terms_of


@dataclass
class Lets:
    """Statements of a block that name integers, with what is known of these.

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
    _known: dict[Expr, Expr] = field(default_factory=dict)

    def inner(self) -> Lets:
        """Return those of a block within this one, which sees all names of this one."""
        return Lets(Bounds(self.bounds), [], dict(self._known))

    def let(self, name: str, value: Expr, end: int) -> Expr:
        """Name an integer that stays below ``end``; 0 if nothing else does."""
        if end == 1:
            return Number(0)
        if isinstance(value, Number):
            return value
        one = Let(name, self.read(value))
        self.statements.append(one)
        self.bounds[one.read] = end
        return one.read

    def loop(self, name: str, end: int) -> Expr:
        """Return the variable of a loop from 0 to ``end``; 0 where it runs once."""
        if end == 1:
            return Number(0)
        self.bounds[Name(name)] = end
        return Name(name)

    def read(self, value: Expr) -> Expr:
        """Return the same integer, with names for its quotients and rests."""
        if isinstance(value, Name | Number):
            return value
        terms, constant = terms_of(value)
        return sum_of({self._atom(atom): count for atom, count in terms.items()}, constant)

    def _atom(self, atom: Expr) -> Expr:
        if not (isinstance(atom, Binary) and atom.op in ("//", "%")):
            return atom
        if atom not in self._known:
            left, right = self.read(atom.left), atom.right
            op = "by" if atom.op == "//" else "in"
            base = left.name if isinstance(left, Name) else "at"
            divisor = right.value if isinstance(right, Number) else "n"
            one = Let(self._free(f"{base}_{op}_{divisor}"), Binary(atom.op, left, right))
            self.statements.append(one)
            most = self.bounds.most(atom)
            if most is not None:
                self.bounds[one.read] = most + 1
            self._known[atom] = one.read
        return self._known[atom]

    def _free(self, name: str) -> str:
        taken = {one.name for one in self._known.values() if isinstance(one, Name)}
        number, free = 2, name
        while free in taken:
            number, free = number + 1, f"{name}_{number}"
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
