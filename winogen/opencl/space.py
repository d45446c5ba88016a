"""The points of direct convolution on a device: ranges, constraints, and draws that are all valid.

The constraints are those that the scheme leaves behind, see `winogen.opencl.constraints`. The
parameters are decided one after the other in a topological order: what is divided comes before what
divides it. Ties are broken at random, so several orders are in use. Each is a
`winogen.tasks.space.Space`, and offers only values that leave a valid point possible. So no draw is
thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from random import Random

from winogen.codegen.devices.expressions import Name
from winogen.conv.problem import Problem, plane_of
from winogen.errors import InvalidValue
from winogen.opencl.conditions import PointCondition
from winogen.opencl.constraints import Collector, dependencies
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.indices import function_of, names_in
from winogen.opencl.operations import known
from winogen.opencl.scheme import PARAMETERS, DirectPoint, names, scheme
from winogen.tasks.space import Constraint, Fact, Level, Space

Function = Callable[[Mapping[str, int]], int]
# How many orders of the parameters are drawn from.
ORDERS = 6
_MOST_WINDOWS = 16  # of a tile along an axis, and of an item
_MOST_FILTERS = 16
_MOST_CHUNKS = 64
_MOST_EXTRA = 12  # outputs behind the last row
_VECTORS = (1, 2, 4, 8, 16)


# The order in which fewest subtrees differ: sizes of arrays are known early.
_COUNTED = (
    "pad", "vector", "chunk", "extra_height", "tile_height", "extra_width", "tile_width", "crop",
    "coalesced", "local_chunks", "windows", "local_windows", "filters", "dot", "unroll",
)  # fmt: skip


def divisors(number: int, most: int) -> tuple[int, ...]:
    """Return the divisors of a number up to a limit, rising."""
    return tuple(one for one in range(1, min(number, most) + 1) if number % one == 0)


def ranges(problem: Problem, device: DeviceInfo) -> dict[str, tuple[int, ...]]:
    """Return the values that each parameter may have, before any constraint.

    They bound what is worth trying: tiles of up to 16 windows along an axis, or of all; up to 16
    filters and windows of an item; up to 64 chunks of a window.
    """
    layer = problem.layer
    values: dict[str, tuple[int, ...]] = {}
    for way, axis, outputs in zip(("height", "width"), layer.plane, plane_of(problem.output_size)):
        windows = {*range(1, min(outputs, _MOST_WINDOWS) + 1), outputs}
        values[f"tile_{way}"] = tuple(axis.reach + axis.stride * (w - 1) for w in sorted(windows))
        extra = min(outputs - 1, _MOST_EXTRA)
        values[f"extra_{way}"] = tuple(axis.stride * count for count in range(extra + 1))
    channels, taps = layer.weight_shape[1], layer.plane[0].kernel * layer.plane[1].kernel
    vectors = tuple(v for v in _VECTORS if v == 1 or v < 2 * channels)
    counts = {taps * -(-channels // v) for v in vectors} | {
        taps * channels // v for v in vectors if channels % v == 0
    }
    chunks = {
        (count // parts, parts) for count in counts for parts in divisors(count, _MOST_CHUNKS)
    }
    products = {a * b for a in range(1, _MOST_WINDOWS + 1) for b in range(1, _MOST_WINDOWS + 1)}
    shared = {n for product in products for n in divisors(product, device.group)}
    return {
        **values,
        "filters": divisors(layer.filters // layer.groups, _MOST_FILTERS),
        "windows": tuple(range(1, _MOST_WINDOWS + 1)),
        "vector": vectors,
        "chunk": tuple(sorted({chunk for chunk, _ in chunks})),
        "local_chunks": tuple(
            n for n in sorted({n for _, parts in chunks for n in divisors(parts, parts)})
            if n <= device.items[0]
        ),
        "local_windows": tuple(n for n in sorted(shared) if n <= device.items[1]),
        **dict.fromkeys(("pad", "crop", "coalesced", "dot", "unroll"), (0, 1)),
    }  # fmt: skip


class DirectSpace:
    """All valid points of a problem on a device.

    ``fixed``: ranges of parameters instead of those of `ranges`. Raises InvalidValue where nothing
    is valid, and for names that are no parameters.

    >>> from winogen.conv.problem import Layer
    >>> small = Layer.of((2, 2, 3, 3), "float32", padding=1).problem((1, 2, 4, 4))
    >>> points = DirectSpace(small, DeviceInfo(), unroll=(0,), coalesced=(0,), dot=(0,))
    >>> point = points.draw(Random(0))
    >>> points.valid(point)
    True
    """

    def __init__(self, problem: Problem, device: DeviceInfo, **fixed: tuple[int, ...]):
        unknown = fixed.keys() - set(PARAMETERS)
        if unknown:
            raise InvalidValue(f"range: got {min(unknown)!r}; allowed: {', '.join(PARAMETERS)}")
        self.problem = problem
        self.device = device
        self.ranges: dict[str, tuple[int, ...]] = {**ranges(problem, device), **fixed}
        self._collector = Collector(device)
        scheme(problem, names(), self._collector)
        self._spaces: dict[tuple[str, ...], Space] = {}

    @property
    def conditions(self) -> list[PointCondition]:
        """The constraints, as the scheme left them behind."""
        return self._collector.conditions

    @cached_property
    def dependencies(self) -> dict[str, frozenset[str]]:
        """For each parameter those that are decided before it."""
        every = frozenset(PARAMETERS)
        return dependencies(self.conditions, self._collector.facts, every)

    def order(self, random: Random) -> tuple[str, ...]:
        """Return the parameters in a topological order, ties broken at random."""
        left, order = set(PARAMETERS), []
        while left:
            ready = [name for name in sorted(left) if not self.dependencies[name] & left]
            # Where two depend on each other, either may begin.
            chosen = (ready or sorted(left))[int(random.random() * len(ready or left))]
            order.append(chosen)
            left.remove(chosen)
        return tuple(order)

    @cached_property
    def orders(self) -> tuple[tuple[str, ...], ...]:
        """The orders that are drawn from, always the same ones."""
        random = Random(0)
        return tuple(dict.fromkeys(self.order(random) for _ in range(ORDERS)))

    def space(self, order: tuple[str, ...]) -> Space:
        """Return all points as a space whose levels come in an order."""
        if order not in self._spaces:
            self._spaces[order] = self._made(order)
        return self._spaces[order]

    @property
    def first(self) -> Space:
        """The space in the first order: all are of the same points."""
        return self.space(self.orders[0])

    def _made(self, order: tuple[str, ...]) -> Space:
        facts, known = dict(self._collector.facts), set[str]()
        steps: list[Level | Fact] = []

        def settle() -> None:
            """Add the facts that follow from what is decided."""
            while ready := [name for name, value in facts.items() if names_in(value) <= known]:
                for name in ready:
                    value = facts.pop(name)
                    needs = tuple(sorted(names_in(value)))
                    steps.append(Fact(name, function_of(value), needs))
                    known.add(name)

        settle()
        for name in order:
            steps.append(_level(name, self.ranges[name]))
            known.add(name)
            settle()
        constraints = [
            Constraint(tuple(sorted(one.names)), function_of(one.holds))  # type: ignore[arg-type]
            for one in self.conditions
        ]
        return Space(steps, constraints)

    def count(self) -> int:
        """Return how many points there are, without walking them."""
        return self.space(_COUNTED).count()

    def __iter__(self) -> Iterator[DirectPoint]:
        """Yield every point: for small spaces."""
        return (DirectPoint(**path) for path in self.first.paths())

    def draw(self, random: Random) -> DirectPoint:
        """Return a point: an order is drawn, then one value after the other."""
        space = self.space(self.orders[int(random.random() * len(self.orders))])
        path = space.begin()
        while space.level(path) is not None:
            choices = space.choices(path)
            space.extend(path, choices[int(random.random() * len(choices))])
        return DirectPoint(**space.decisions(path))

    def valid(self, point: DirectPoint) -> bool:
        """Whether a point satisfies all constraints, its ranges aside."""
        return not self.broken(point)

    def broken(self, point: DirectPoint) -> list[str]:
        """Return what a point does not satisfy, in words."""
        values = self.facts_of(point)
        return [why for why, holds in self._functions[1] if not holds(values)]

    @cached_property
    def _functions(self) -> tuple[list[tuple[str, Function]], list[tuple[str, Function]]]:
        """What computes facts, in the order in which they build on each other, and conditions."""
        facts = [(name, function_of(value)) for name, value in self._collector.facts.items()]
        return facts, [(one.why, function_of(one.holds)) for one in self.conditions]

    def facts_of(self, point: DirectPoint) -> dict[str, int]:
        """Return the values of all names in constraints: parameters, and what follows from them."""
        values = point.as_values()
        for name, value in self._functions[0]:
            values[name] = value(values)
        return values

    def sizes_of(self, point: DirectPoint) -> dict[str, int]:
        """Return the bytes of every array, those of a call and the packed weights included."""
        values, sizes = self.facts_of(point), self._collector.buffers.items()
        return {k: values[v.name] if isinstance(v, Name) else known(v) for k, v in sizes}

    def workspace_of(self, point: DirectPoint) -> int:
        """Return the bytes of what a call needs besides its own arrays and packed weights."""
        sizes = self.sizes_of(point)
        return sum(sizes[name] for name in ("padded", "partial", "sums"))


def _level(name: str, values: tuple[int, ...]) -> Level:
    return Level(name, lambda path: values)
