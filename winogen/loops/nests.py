"""The space of loop nests of a problem: one level per choice, by the rules of `parameters`.

What later levels look at decides the order of the levels: the register block comes before the
blocks, which are whole steps of it, and how often a loop is unrolled right behind the block that
bounds it. So little of a path lives on, and 10^15 nests are counted in milliseconds. (Thesis,
sections 4.4 and 4.5; register blocks, strides and groups are ours.)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import combinations
from typing import Any

from winogen.loops import parameters as rules
from winogen.loops.parameters import DIMS, STRATEGIES, STREAMS, LoopProblem, Parameters, Prefetch
from winogen.loops.space import Fact, Level, Path, Space
from winogen.records import Target

DISTANCES = (64, 256, 1024, 4096, 16384)  # bytes
_MOST_BODIES = 64  # copies of the micro-kernel that unrolling makes: more take long to compile
_AGREEMENT = 4.0  # how much more often a loop is drawn where the image's layout has it

Step = Level | Fact


def free(loops: tuple[str, ...] = DIMS) -> Space:
    """Return all orders of unblocked loops and all layouts: the thesis' space before any blocking.

    >>> free().count()
    622080
    """
    names = Fact("loops", lambda path: loops, ())
    return Space(
        [
            Level("image", lambda path: _permutations("CHW")),
            Level("kernel", lambda path: _permutations("MCYX")),
            Level("output", lambda path: _permutations("MHW")),
            names,
            *_order(len(loops)),
        ]
    )


def nests(problem: LoopProblem, target: Target, *, in_place: bool = False) -> Space:
    """Return the space of all nests of a problem on a target; `nest` makes `Parameters` of a path.

    ``in_place``: only those whose sums and inputs lie as the arrays do, so that no layout is
    converted. The parameters, in the order of the tree, are those of `Parameters`; "blocked" has
    the dims that are, "block_H" the size of H's blocks or None, "unroll_H" how often the innermost
    loop over H is, and "prefetch" the streams, "distance" and "level" of what is fetched ahead.

    >>> from winogen.records import TARGETS
    >>> vgg = LoopProblem.of("NCHW", 128, 256, (56, 56), (3, 3), padding=(1, 1, 1, 1))
    >>> nests(vgg, TARGETS["avx2"]).count() > 10**7
    True
    >>> space = nests(vgg, TARGETS["avx2"]).restrict(image={"HWC"}, blocked={"", "H"})
    >>> space.values("block_H") >= {None, 28, 14, 7}
    True
    """
    lanes, registers = target.lanes(problem.dtype), target.registers

    def step(path: Path, dim: str) -> int:
        kind = STRATEGIES[path["strategy"]]
        return kind.step(dim, path["pixels"], path["filters"], lanes)

    def blockable(path: Path) -> list[str]:
        return [dim for dim in DIMS if block_sizes(problem, step(path, dim), dim)]

    blocks = ("strategy", "pixels", "filters")
    steps: list[Step] = [
        Level("strategy", lambda path: rules.strategies(target)),
        Level(
            "image",
            lambda path: rules.image_layouts(problem, path["strategy"]),
            needs=("strategy",),
        ),
        Level(
            "kernel", lambda path: rules.kernel_layouts(path["strategy"]), needs=("strategy",)
        ),
        Level(
            "output", lambda path: rules.output_layouts(path["strategy"]), needs=("strategy",)
        ),
        Level("copies", lambda path: rules.copies(problem, path["image"]), needs=("image",)),
        Level(
            "pixels",
            lambda path: _register_block(path["strategy"], lanes, registers),
            needs=("strategy",),
        ),
        Level(
            "filters",
            lambda path: _register_block(path["strategy"], lanes, registers)[path["pixels"]],
            needs=("strategy", "pixels"),
            # Large register blocks load least, and are few beside the small ones.
            weight=lambda filters, path: float(path["pixels"] * filters),
        ),
        Level(
            "blocked",
            lambda path: _subsets(blockable(path)),
            needs=blocks,
            # As often none as one, as often one as two, and so on.
            weight=lambda dims, path: 1.0 / len([*combinations(DIMS, len(dims))]),
        ),
        Fact("bodies", lambda path: 1, ()),
    ]
    for dim in DIMS:
        steps += _block_and_unroll(problem, step, dim)
    steps += [
        Fact(
            "loops",
            lambda path: rules.loops(path["strategy"], path["blocked"]),
            ("strategy", "blocked"),
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
    unrolled = {
        dim if dim in own or dim not in chosen["blocked"] else f"{dim}.i": chosen[f"unroll_{dim}"]
        for dim in DIMS
    }
    return Parameters(
        chosen["strategy"],
        chosen["image"],
        chosen["kernel"],
        chosen["output"],
        chosen["order"],
        blocks=tuple((dim, chosen[f"block_{dim}"]) for dim in DIMS if dim in chosen["blocked"]),
        copies=chosen["copies"],
        unroll=tuple((loop, times) for loop, times in unrolled.items() if times > 1),
        pixels=chosen["pixels"],
        filters=chosen["filters"],
        prefetch=Prefetch(streams, chosen["distance"], chosen["level"]) if streams else None,
        dtype=chosen["dtype"],
    )


def block_sizes(problem: LoopProblem, step: int, dim: str) -> tuple[int, ...]:
    """Return the least size for every number of blocks that a dim can have: divisors are among them.

    >>> block_sizes(LoopProblem.of("NCHW", 8, 8, (12, 12), (1, 1)), 1, "H")
    (1, 2, 3, 4, 6)
    """
    by_number: dict[int, int] = {}
    for size in rules.block_sizes(problem, step, dim):
        by_number.setdefault(-(-problem.extent(dim) // size), size)
    return tuple(by_number.values())


def _block_and_unroll(problem: LoopProblem, step: Any, dim: str) -> list[Step]:
    """The size of a dim's blocks, and how often the loop inside of them is unrolled."""
    block, unroll, bodies = f"block_{dim}", f"unroll_{dim}", f"bodies_{dim}"
    before = f"bodies_{DIMS[DIMS.index(dim) - 1]}" if dim != DIMS[0] else "bodies"
    inner = ("strategy", "pixels", "filters")

    def sizes(path: Path) -> tuple:
        if dim not in path["blocked"]:
            return (None,)
        return block_sizes(problem, step(path, dim), dim)

    def times(path: Path) -> list[int]:
        trips = -(-(path[block] or problem.extent(dim)) // step(path, dim))
        most = _MOST_BODIES // path[before]
        return [count for count in rules.UNROLLS if count == 1 or count <= min(trips, most)]

    return [
        Level(block, sizes, needs=("blocked", *inner)),
        Level(unroll, times, needs=(block, before, *inner), weight=_seldom),
        Fact(bodies, lambda path: path[before] * path[unroll], (before, unroll)),
    ]


def _order(most: int) -> list[Step]:
    """The order of the loops in the fact "loops", one level per place; None behind the last."""
    steps: list[Step] = [Fact("placed.0", lambda path: frozenset(), ())]
    for place in range(most):
        here, placed, following = f"order.{place}", f"placed.{place}", f"placed.{place + 1}"

        def next_loops(path: Path, placed: str = placed) -> Iterable:
            done, names = path[placed], path["loops"]
            if len(done) == len(names):
                return (None,)
            return [name for name in names if rules.may_follow(tuple(done), name)]

        def with_it(path: Path, placed: str = placed, here: str = here) -> frozenset:
            return path[placed] | {path[here]} - {None}

        def agreement(loop: Hashable, path: Path, placed: str = placed) -> float:
            """More where all dims that the image has outside of this one were placed before."""
            dim, image = str(loop)[0], path["image"].rstrip("w")
            if dim not in image:
                return 1.0
            done = {name[0] for name in path[placed]}
            return _AGREEMENT if {*image[: image.index(dim)]} <= done else 1.0

        steps += [
            Level(here, next_loops, needs=("loops", placed), weight=agreement),
            Fact(following, with_it, (placed, here)),
        ]
    return steps


def _register_block(strategy: str, lanes: int, registers: int) -> dict[int, list[int]]:
    """Pixels -> the numbers of filters that go with them."""
    blocks: dict[int, list[int]] = {}
    for pixels, filters in rules.register_blocks(strategy, lanes, registers):
        blocks.setdefault(pixels, []).append(filters)
    return blocks


def _permutations(dims: str) -> list[str]:
    return ["".join(order) for order in rules.permutations(dims)]


def _subsets(names: Iterable[str], between: str = "") -> list[str]:
    names = tuple(names)
    return [
        between.join(some) for size in range(len(names) + 1) for some in combinations(names, size)
    ]


def _seldom(value: Hashable, path: Path) -> float:
    """Nothing, or a loop as it is, half of the time or so."""
    return 4.0 if value in ("", 1) else 1.0
