"""Kernels as loops over items: what stands between barriers, and which variables outlive it.

Statements between two barriers are a phase. All items of a work-group finish a phase before any
begins the next, so a variable that two phases use is kept for each item, or computed again where
that takes integers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod

from winogen.codegen.devices.expressions import Expr, Id, Name, Number, expr
from winogen.codegen.devices.statements import (
    Barrier,
    Declare,
    DeviceKernel,
    ForLoop,
    Let,
    Statement,
)
from winogen.codegen.devices.walk import bodies, loads, values, variables, waits, within
from winogen.errors import InvalidValue

Phase = tuple[Statement, ...]


def split(body: Sequence[Statement]) -> list[Phase | Statement]:
    """Return statements as phases, and those that have barriers within, in their order."""
    found: list[Phase | Statement] = []
    phase: list[Statement] = []
    for one in body:
        if not waits(one):
            phase.append(one)
            continue
        if phase:
            found.append(tuple(phase))
            phase = []
        if not isinstance(one, Barrier):
            found.append(one)
    return [*found, tuple(phase)] if phase else found


class Items:
    """Which group and which item this is, as variables of loops.

    ``taken`` are names that these variables may not have.
    """

    def __init__(
        self, items: tuple[int, int, int], group: tuple[int, int, int], taken: set[str]
    ) -> None:
        self.sizes = {
            "group": tuple(n // size for n, size in zip(items, group, strict=True)),
            "local": group,
        }
        self.taken = taken
        self.count = prod(group)  # the items of a group

    def variable(self, of: str, axis: int) -> Name:
        """What counts groups, or the items of a group, along an axis."""
        name = f"{'item' if of == 'local' else of}_{'xyz'[axis]}"
        while name in self.taken:
            name += "_"
        return Name(name)

    def identity(self, of: str, axis: int) -> Expr:
        """Which group, which item of it, or which item of all."""
        if of == "global":
            size = self.sizes["local"][axis]
            return self.identity("group", axis) * size + self.identity("local", axis)
        return self.variable(of, axis) if self.sizes[of][axis] > 1 else Number(0)

    @property
    def item(self) -> Expr:
        """Which item of its group this is."""
        axes = [(self.identity("local", axis), self.sizes["local"][axis]) for axis in (2, 1, 0)]
        return reduce(lambda index, axis: index * axis[1] + axis[0], axes, expr(0))

    def loops(self, of: str) -> list[str]:
        """The heads of the loops, from the innermost."""
        return [
            f"for (int {name} = 0; {name} < {size}; {name}++)"
            for axis, size in enumerate(self.sizes[of])
            if size > 1 and (name := self.variable(of, axis).name)
        ]


class Lives:
    """What becomes of a kernel's variables that more than one phase uses.

    ``spread`` have an element for each item. Raises InvalidValue for a barrier within a loop or a
    branch that differs from item to item.
    """

    def __init__(self, kernel: DeviceKernel) -> None:
        self.kernel = kernel.name
        self.spread: set[str] = set()
        self.uniform: set[str] = set()  # the same for all items of a group
        self.pure: dict[str, Let] = {}  # integers that are computed again
        self.phases = list(_phases(kernel.body))
        if any(map(waits, kernel.body)):
            self._visit(kernel.body)

    def _visit(self, body: Sequence[Statement]) -> None:
        for part in split(body):
            if isinstance(part, tuple):
                for one in part:
                    if isinstance(one, (Let, Declare)) and self._outlives(one.name):
                        self._keep(one)
                continue
            for value in values(part):
                if not self._is_known(value, self.uniform, groups=True):
                    kind = "loop" if isinstance(part, ForLoop) else "if"
                    raise InvalidValue(
                        f"barrier of {self.kernel}: got one in a {kind} that differs from item "
                        "to item; allowed: what all items of a group do alike"
                    )
            if isinstance(part, ForLoop):
                self.uniform.add(part.name)
            for inner in bodies(part):
                self._visit(inner)

    def _outlives(self, name: str) -> bool:
        return sum(name in used for used in self.phases) > 1

    def _keep(self, one: Let | Declare) -> None:
        if isinstance(one, Let) and not one.value.real and not loads(one.value):
            if self._is_known(one.value, self.uniform, groups=True):
                self.uniform.add(one.name)
                return
            if self._is_known(one.value, self.uniform | set(self.pure)):
                self.pure[one.name] = one
                return
        self.spread.add(one.name)

    @staticmethod
    def _is_known(value: Expr, names: set[str], groups: bool = False) -> bool:
        """Whether a value is made of these names and of which item, or ``groups`` alone, it is."""
        leaves = [one for one in within(value) if isinstance(one, (Name, Id))]
        return not loads(value) and all(
            one.name in names if isinstance(one, Name) else not groups or one.of == "group"
            for one in leaves
        )

    def is_uniform(self, one: Statement) -> bool:
        """Whether a statement names a value that is the same for all items of a group."""
        return isinstance(one, Let) and one.name in self.uniform

    def computed(self, phase: Sequence[Statement]) -> list[Statement]:
        """Return a phase without what it doesn't use, after what it computes again."""
        wanted = variables([one for one in phase if not self._is_pure(one)])
        for one in reversed(self.pure.values()):
            if one.name in wanted:
                wanted |= variables((one,))
        again = [one for name, one in self.pure.items() if name in wanted]
        return [*again, *(one for one in phase if not self._is_pure(one))]

    def _is_pure(self, one: Statement) -> bool:
        return isinstance(one, Let) and one.name in self.pure


def _phases(body: Sequence[Statement]) -> Iterator[set[str]]:
    """The names that each phase uses or defines, and those that loops around phases use."""
    for part in split(body):
        if isinstance(part, tuple):
            yield variables(part) | {one.name for one in part if isinstance(one, (Let, Declare))}
            continue
        yield {one.name for value in values(part) for one in within(value) if isinstance(one, Name)}
        for inner in bodies(part):
            yield from _phases(inner)
