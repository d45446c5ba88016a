"""The space of loop nests of a problem: one level per choice, by the `rules`.

What later levels look at decides the order of the levels: the register block comes before the
blocks, whole steps of it, and the unrolling of a loop right behind the block that bounds it. So
little of a path lives on, and 10^15 nests are counted in milliseconds. (Thesis, sections 4.4 and
4.5; register blocks, strides and groups are ours.)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cache, lru_cache, partial
from itertools import combinations, permutations
from math import prod
from typing import Any

from winogen.records import Target
from winogen.tasks.space import Fact, Level, Path, Space
from winogen_lab.loops import rules
from winogen_lab.loops.parameters import (
    DIMS,
    STRATEGIES,
    STREAMS,
    UNROLLS,
    LoopProblem,
    Pair,
    Parameters,
    Prefetch,
)

DISTANCES = (64, 256, 1024, 4096, 16384)  # bytes
# The dims in the order in which their blocks are decided: largest differences of steps first.
_BLOCKS = ("M", "W", "C", "H", "Y", "X")
_UNBLOCKED = 2.0  # how much more often a dim is drawn without blocks than with
# Products that the code of a nest may have: the register block, and twice as many for every time a
# loop is unrolled, for each unrolled loop has one behind it for the rest. More take the compiler
# minutes.
_MOST_PRODUCTS = 256
_AGREEMENT = 4.0  # how much more often a loop is drawn where the image's layout has it

Step = Level | Fact


def free(loops: tuple[str, ...] = DIMS) -> Space:
    """Return all orders of unblocked loops and all layouts: the thesis' space before any blocking.

    >>> free().count()
    622080
    """
    names = Fact("left.0", lambda path: frozenset(loops), ())
    unrolled = Fact("unrolled.0", lambda path: (), ())
    return Space(
        [
            Level("image", lambda path: _permutations("CHW")),
            Level("kernel", lambda path: _permutations("MCYX")),
            Level("output", lambda path: _permutations("MHW")),
            names,
            unrolled,
            *_order(len(loops)),
        ]
    )


def nests(problem: LoopProblem, target: Target, *, in_place: bool = False) -> Space:
    """Return the space of all nests of a problem on a target; `nest` makes `Parameters` of a path.

    ``in_place``: only nests whose sums and inputs lie as the arrays do: no layout is converted. The
    parameters, in the order of the tree, are those of `Parameters`; "block_H" is the size of H's
    blocks or None, "unroll_H" how often the innermost loop over H is unrolled, and "prefetch" the
    streams of which "level" gets what lies "distance" bytes ahead.

    >>> from winogen.records import TARGETS
    >>> vgg = LoopProblem.of("NCHW", 128, 256, (56, 56), (3, 3), padding=(1, 1, 1, 1))
    >>> nests(vgg, TARGETS["avx2"]).count() > 10**7
    True
    >>> space = nests(vgg, TARGETS["avx2"]).restrict(image={"HWC"}, pixels={4, 6})
    >>> space.values("block_H") >= {None, 28, 14, 7}
    True
    """
    lanes, registers = target.lanes(problem.dtype), target.registers

    def step(dim: str, path: Path) -> int:
        kind = STRATEGIES[path["strategy"]]
        if dim in kind.resident:
            return problem.extent(dim)
        return kind.step(dim, path["pixels"], path["filters"], lanes, path["rows"])

    def in_registers(path: Path) -> int:
        """A power of two, so that there are few different ones."""
        kind = STRATEGIES[path["strategy"]]
        sums = kind.sums(path["pixels"], path["filters"], lanes, path["rows"])
        return 1 << (sums * prod(kind.taps(problem.kernel)) - 1).bit_length()

    def register_blocks(path: Path, rows: int | None = None) -> dict[int, list[int]]:
        rows = rows or path["rows"]
        return _register_blocks(path["strategy"], lanes, registers, rows, problem.kernel)

    def rows(path: Path) -> list[int]:
        allowed = rules.rows(problem, path["strategy"], path["copies"])
        return [count for count in allowed if register_blocks(path, count)]

    by_strategy = ("strategy",)
    steps: list[Step] = [
        Level("strategy", lambda path: rules.strategies(target, problem.kernel)),
        Level("image", lambda path: rules.image_layouts(problem, path["strategy"]), by_strategy),
        Level(
            "copies",
            lambda path: rules.copies(problem, path["image"], path["strategy"]),
            ("image", "strategy"),
        ),
        Level("kernel", lambda path: rules.kernel_layouts(path["strategy"]), by_strategy),
        Level("output", lambda path: rules.output_layouts(path["strategy"]), by_strategy),
        Level("rows", rows, ("strategy", "copies"), weight=_seldom),
        Level("pixels", register_blocks, ("strategy", "rows")),
        Level(
            "filters",
            lambda path: register_blocks(path)[path["pixels"]],
            ("strategy", "rows", "pixels"),
            # Large register blocks load least, and are few beside the small ones.
            weight=lambda filters, path: float(path["pixels"] * filters),
        ),
    ]
    for dim in DIMS:
        inner = ("strategy", "rows", "pixels", "filters")
        steps.append(Fact(f"step_{dim}", partial(step, dim), inner))
    steps += [
        Fact("alike", lambda path: _alike(path["strategy"]), by_strategy),
        Fact("blocked_", lambda path: (), ()),
        Fact("unrolled_", lambda path: (), ()),
        Fact("products_", in_registers, ("strategy", "rows", "pixels", "filters")),
    ]
    for before, dim in zip(("", *_BLOCKS), _BLOCKS):
        steps += _block_and_unroll(problem, dim, before)
    blocked, unrolled = (f"{what}_{_BLOCKS[-1]}" for what in ("blocked", "unrolled"))
    steps += [
        Fact("unrolled.0", lambda path: path[unrolled], (unrolled,)),
        Fact(
            "left.0",
            lambda path: frozenset(rules.loops(path["alike"], path[blocked])),
            ("alike", blocked),
        ),
        *_order(2 * len(DIMS)),
        Level("prefetch", lambda path: ("", *_subsets(STREAMS, "+")[1:]), weight=_seldom),
        Level(
            "distance",
            lambda path: DISTANCES if path["prefetch"] else (None,),
            needs=("prefetch",),
        ),
        Level("level", lambda path: (1, 2) if path["prefetch"] else (None,), needs=("prefetch",)),
        Level("dtype", lambda path: (problem.dtype,)),
    ]
    space = Space(steps)
    if in_place:
        space = space.restrict(image={problem.image_layout}, output={problem.output_layout})
    return space


def nest(space: Space, path: Path) -> Parameters:
    """Return the parameters of the nest that the decisions of a path describe."""
    chosen: dict[str, Any] = space.settings(path)
    streams = tuple(filter(None, chosen["prefetch"].split("+")))
    own = STRATEGIES[chosen["strategy"]].loops
    blocks = {dim: chosen[f"block_{dim}"] for dim in DIMS if chosen[f"block_{dim}"]}
    unrolled = {
        f"{dim}.i" if dim in blocks and dim not in own else dim: chosen[f"unroll_{dim}"]
        for dim in DIMS
    }
    return Parameters(
        chosen["strategy"],
        chosen["image"],
        chosen["kernel"],
        chosen["output"],
        chosen["order"],
        blocks=tuple(blocks.items()),
        copies=chosen["copies"],
        unroll=tuple((loop, times) for loop, times in unrolled.items() if times > 1),
        pixels=chosen["pixels"],
        filters=chosen["filters"],
        rows=chosen["rows"],
        prefetch=Prefetch(streams, chosen["distance"], chosen["level"]) if streams else None,
        dtype=chosen["dtype"],
    )


@lru_cache(maxsize=1024)
def block_sizes(problem: LoopProblem, step: int, dim: str) -> tuple[int, ...]:
    """Return the least size for every number of blocks that a dim can have; divisors are among.

    >>> block_sizes(LoopProblem.of("NCHW", 8, 8, (12, 12), (1, 1)), 1, "H")
    (1, 2, 3, 4, 6)
    """
    by_number: dict[int, int] = {}
    for size in rules.block_sizes(problem, step, dim):
        by_number.setdefault(-(-problem.extent(dim) // size), size)
    return tuple(by_number.values())


def _block_and_unroll(problem: LoopProblem, dim: str, before: str) -> list[Step]:
    """The size of a dim's blocks, and how often the loop inside of them is unrolled.

    ``before``: the dim that was decided last. Three facts go on from it: the blocked dims, the
    loops that cannot be outermost any more, and the products of the code.
    """
    step, block, unroll, trips = (f"{what}_{dim}" for what in ("step", "block", "unroll", "trips"))
    blocked, products, unrolled = (
        f"{what}_{before}" for what in ("blocked", "products", "unrolled")
    )

    def sizes(path: Path) -> tuple:
        return (None, *block_sizes(problem, path[step], dim))

    def as_often_as_not(size: Hashable, path: Path) -> float:
        number = len(block_sizes(problem, path[step], dim))
        return 1.0 if size else _UNBLOCKED * number or 1.0

    def longest(path: Path) -> int:
        trips = -(-(path[block] or problem.extent(dim)) // path[step])
        return max(times for times in UNROLLS if times == 1 or times <= trips)

    def unrolls(path: Path) -> list[int]:
        most = min(path[trips], _MOST_PRODUCTS // path[products] // 2)
        return [times for times in UNROLLS if times == 1 or times <= most]

    def code(path: Path) -> int:
        return path[products] * (1 if path[unroll] == 1 else 2 * path[unroll])

    def not_outermost(path: Path) -> tuple:
        around = rules.loops(path["alike"], path[f"blocked_{dim}"])
        if path[unroll] == 1 or dim not in around or dim in rules.unrollable(path["alike"], (dim,)):
            return path[unrolled]
        return (*path[unrolled], dim)

    return [
        Level(block, sizes, (step,), weight=as_often_as_not),
        Fact(trips, longest, (step, block)),
        Fact(
            f"blocked_{dim}",
            lambda path: (*path[blocked], dim) if path[block] else path[blocked],
            (block, blocked),
        ),
        Level(unroll, unrolls, (trips, products), weight=_seldom),
        Fact(f"unrolled_{dim}", not_outermost, (unroll, f"blocked_{dim}", unrolled, "alike")),
        Fact(f"products_{dim}", code, (unroll, products)),
    ]


def _order(most: int) -> list[Step]:
    """The order of the loops in the fact "left.0", one level per place, outermost first.

    Where there are fewer than ``most`` loops, the first places are None: so what is left of
    different nests is the same at the same place, and is counted once. The loops in "unrolled.0"
    cannot be outermost.
    """
    steps: list[Step] = []
    for place in range(most):
        here, left, unrolled = f"order.{place}", f"left.{place}", f"unrolled.{place}"

        def loops(
            path: Path, left: str = left, unrolled: str = unrolled, places: int = most - place
        ) -> tuple:
            if len(path[left]) < places:
                return (None,)
            return tuple(loop for loop in _next(path[left]) if loop not in path[unrolled])

        def without_it(path: Path, left: str = left, here: str = here) -> frozenset:
            return path[left] - {path[here]}

        def until_placed(path: Path, unrolled: str = unrolled, here: str = here) -> tuple:
            return path[unrolled] if path[here] is None else ()

        def agreement(loop: Hashable, path: Path, left: str = left) -> float:
            """More where no dim that the image has outside of this one is left."""
            dim, image = str(loop)[0], path["image"]
            outside = image[: max(0, image.find(dim))]
            inside_out = any(other[0] in outside for other in path[left])
            return 1.0 if inside_out or dim not in image else _AGREEMENT

        steps += [
            Level(here, loops, (left, unrolled), weight=agreement),
            Fact(f"left.{place + 1}", without_it, (left, here)),
            Fact(f"unrolled.{place + 1}", until_placed, (unrolled, here)),
        ]
    return steps


@cache
def _next(left: frozenset[str]) -> tuple[str, ...]:
    """The loops that may come next, of the remaining ones."""
    placed = [f"{loop[0]}.o" for loop in left if loop.endswith(".i")]
    placed = [outer for outer in placed if outer not in left]
    names = sorted(left)
    return tuple(loop for loop in names if rules.may_follow(placed, loop, names))


@cache
def _register_blocks(
    strategy: str, lanes: int, registers: int, rows: int, kernel: Pair
) -> dict[int, list[int]]:
    """Pixels -> the numbers of filters that go with them."""
    blocks: dict[int, list[int]] = {}
    for pixels, filters in rules.register_blocks(strategy, lanes, registers, rows, kernel):
        blocks.setdefault(pixels, []).append(filters)
    return blocks


def _alike(strategy: str) -> str:
    """The first strategy with the same loops of its own: all that the order of loops depends on."""
    own = STRATEGIES[strategy].own
    return next(name for name, kind in STRATEGIES.items() if kind.own == own)


def _permutations(dims: str) -> list[str]:
    return ["".join(order) for order in permutations(dims)]


def _subsets(names: Iterable[str], between: str = "") -> list[str]:
    names = tuple(names)
    return [
        between.join(some) for size in range(len(names) + 1) for some in combinations(names, size)
    ]


def _seldom(value: Hashable, path: Path) -> float:
    """Nothing, or a loop as it is, half of the time or so."""
    return 4.0 if value in ("", 1) else 1.0
