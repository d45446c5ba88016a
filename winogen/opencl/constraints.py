"""Constraints on the parameters of a scheme, collected while it is built.

A scheme is a function of parameters. Called with numbers, it says which arrays, launches and views
the kernels have. Called with names, it leaves the same conditions behind as expressions: they are
the constraints of the search, and stand nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from winogen.codegen.devices.expressions import Expr, Name, Number, expr, total
from winogen.opencl.conditions import PointCondition, at_most
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.indices import names_in
from winogen.opencl.maps import IndexView, Zip

# Numbers that an item may keep for itself: more of them leave the registers of every device.
MOST_PRIVATE = 128
# Work-groups along an axis: what CUDA and WebGPU allow.
MOST_GROUPS = 65535
_INDEX_END = 1 << 31


@dataclass
class Collector:
    """Takes down what a scheme asks for: conditions, named lengths, bytes.

    Where parameters are numbers, a condition that does not hold raises InvalidValue at once.
    """

    device: DeviceInfo
    conditions: list[PointCondition] = field(default_factory=list)
    facts: dict[str, Expr] = field(default_factory=dict)  # names of lengths -> what they are
    buffers: dict[str, Expr] = field(default_factory=dict)  # name -> bytes; 0 where it vanishes

    def ask(self, *conditions: PointCondition) -> None:
        """Take down conditions."""
        for one in conditions:
            one.check()
            if one.decided is None and one not in self.conditions:
                self.conditions.append(one)

    def take(self, *views: IndexView | Zip) -> None:
        """Take down the conditions of views."""
        for view in views:
            self.ask(*view.conditions)

    def name(self, name: str, length: Expr) -> Expr:
        """Give a length a name where it is open, so that what follows depends on nothing else."""
        if isinstance(length, Number):
            return length
        self.facts[name] = length
        return Name(name)

    def called(self, view: IndexView, axis: int, name: str) -> IndexView:
        """Give the length of an axis of a view a name where it is open."""
        return view.called(axis, self.name(name, view.lengths[axis]))

    def buffer(self, name: str, numbers: Expr, when: Any = 1, itemsize: int = 4) -> None:
        """Take down an array of the device's memory, which is there ``when`` that is 1."""
        size = self.name(f"{name}_bytes", expr(when) * numbers * itemsize)
        self.buffers[name] = size
        limit = min(self.device.largest_buffer, _INDEX_END * itemsize - 1)
        self.ask(at_most(size, limit, f"the device has a buffer as large as {name!r}"))

    def all_fit(self) -> None:
        """Take down that the device has the bytes of all arrays together."""
        size = self.name("all_bytes", total([*self.buffers.values()]))
        self.ask(at_most(size, self.device.memory_bytes, "all arrays fit into the device's memory"))

    def launch(self, groups: Iterable[Expr], items: tuple[Expr, ...]) -> None:
        """Take down how many work-groups there are along each axis, and items of each."""
        for one in groups:
            self.ask(at_most(one, MOST_GROUPS, f"an axis has at most {MOST_GROUPS} work-groups"))
        every: Expr = Number(1)
        for one, limit in zip(items, self.device.items):
            self.ask(at_most(one, limit, "the device has so many work-items along an axis"))
            every = every * one
        self.ask(at_most(every, self.device.group, "the device has so large a work-group"))

    def vector(self, lanes: Expr) -> None:
        """Take down the lanes of a vector."""
        self.ask(at_most(lanes, self.device.lanes, "the device has vectors of so many lanes"))

    def private(self, numbers: Expr) -> None:
        """Take down how many numbers an item keeps for itself."""
        self.ask(at_most(numbers, MOST_PRIVATE, f"an item keeps at most {MOST_PRIVATE} numbers"))


def parameters_of(
    names: Iterable[str], facts: Mapping[str, Expr], parameters: frozenset[str]
) -> frozenset[str]:
    """Return the parameters that some names, of parameters and facts, depend on."""
    found: set[str] = set()
    for name in names:
        if name in parameters:
            found.add(name)
        else:
            found |= parameters_of(names_in(facts[name]), facts, parameters)
    return frozenset(found)


def dependencies(
    conditions: Iterable[PointCondition], facts: Mapping[str, Expr], parameters: frozenset[str]
) -> dict[str, frozenset[str]]:
    """Return for each parameter those that are best decided before it.

    A divisor comes after what it divides. What both depend on does not count.
    """
    before: dict[str, set[str]] = {name: set() for name in parameters}
    for one in conditions:
        leads = parameters_of(one.leads, facts, parameters)
        follows = parameters_of(one.follows, facts, parameters)
        for name in follows - leads:
            before[name] |= leads
    return {name: frozenset(names) for name, names in before.items()}
