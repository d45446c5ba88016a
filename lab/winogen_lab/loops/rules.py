"""Which choices of a loop nest go together: each rule is about what is chosen before it.

They are small functions, so that a search can ask each of them as soon as the path so far allows
it; `flaws` asks all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from winogen.errors import InvalidValue
from winogen.records import Target
from winogen_lab.loops.parameters import (
    COPIES,
    DIMS,
    STRATEGIES,
    STREAMS,
    SUMMED,
    UNROLLS,
    WIDENED,
    LoopProblem,
    Pair,
    Parameters,
)


def strategies(target: Target, kernel: Pair = (1, 1)) -> tuple[str, ...]:
    """Return the micro-kernels that make sense on a target.

    Products by a lane of a register need such an instruction. Permuted copies are for vectors of
    several blocks of 16 bytes on machines without one. Taps of a ``kernel`` that stay in registers
    have to leave some.

    >>> from winogen.records import TARGETS
    >>> len(strategies(TARGETS["neon"])), len(strategies(TARGETS["avx2"]))
    (16, 11)
    >>> {*strategies(TARGETS["avx2"])} - {*strategies(TARGETS["avx2"], (5, 5))}
    {'filters-c-window'}
    """
    return tuple(
        name
        for name, kind in STRATEGIES.items()
        if {
            "lane": target.by_lane,
            "permuted": target.vector_bytes > 16 and not target.by_lane,
        }.get(kind.meet, True)
        and (not kind.resident or fits(name, 1, 1, 1, target.registers, kernel=kernel))
    )


def image_layouts(problem: LoopProblem, strategy: str) -> tuple[str, ...]:
    """Return the orders of inputs that a micro-kernel can read; vectors lie in one piece.

    Blocks of pixels, "HWCw", are for kernels one tap wide, whose vectors never straddle two.
    """
    kind = STRATEGIES[strategy]
    last = {"dot": "C", "permuted": "W"}.get(kind.meet, kind.along[-1:])
    if kind.lanes == "W":
        last = "W"
    orders = ["".join(order) for order in permutations("CHW")]
    allowed = [order for order in orders if not last or order[-1] == last]
    if last == "W" and problem.kernel[1] == 1 and problem.stride[1] == 1:
        allowed.append("HWCw")
    return tuple(allowed)


def kernel_layouts(strategy: str) -> tuple[str, ...]:
    """Return the orders of packed filters that a micro-kernel can read."""
    kind = STRATEGIES[strategy]
    last = "C" if kind.meet == "dot" else "" if kind.lanes == "W" else "M"
    orders = ["".join(order) for order in permutations("MCYX")]
    allowed = [order for order in orders if not last or order[-1] == last]
    return tuple(allowed) if kind.meet == "dot" else (*allowed, "MYXCm")


def output_layouts(strategy: str) -> tuple[str, ...]:
    """Return the orders of sums that a micro-kernel can write."""
    kind = STRATEGIES[strategy]
    last = {"dot": "MHW", "permuted": "MW"}.get(kind.meet, kind.lanes)
    return tuple("".join(order) for order in permutations("MHW") if order[-1] in last)


def copies(problem: LoopProblem, image: str, strategy: str) -> tuple[str, ...]:
    """Return how inputs may be read: where they lie only if they lie as they are read, only beside
    a padding of zeros, and only by micro-kernels that see one row of them.
    """
    in_place = image == problem.image_layout and "Y" not in STRATEGIES[strategy].resident
    plain = problem.padding_mode == "zeros" or not problem.is_padded
    return COPIES if in_place and plain else COPIES[1:]


def widened(problem: LoopProblem, strategy: str, kernel: str) -> tuple[str, ...]:
    """Return how filters may be widened: once only if they are narrower than what is computed with,
    and those of a step along M, which is around the micro-kernel, lie one after the other.
    """
    around = "M" not in STRATEGIES[strategy].loops
    return WIDENED if problem.weights and around and kernel[0] == "M" else WIDENED[:1]


def rows(problem: LoopProblem, strategy: str, copied: str) -> tuple[int, ...]:
    """Return how many rows of outputs a register block may have: several where filters fill the
    lanes, inputs lie in all lanes of a register, and a copy has the rows below them.
    """
    several = STRATEGIES[strategy].has_rows and copied == "explicit"
    return tuple(range(1, problem.extent("H") + 1)) if several else (1,)


def fits(strategy: str, pixels: int, filters: int, lanes: int, registers: int, rows: int = 1,
         kernel: Pair = (1, 1)) -> bool:  # fmt: skip
    """Whether a register block fits into the registers.

    >>> fits("filters-c", 14, 2, 16, 32), fits("filters-c", 15, 2, 16, 32)
    (True, False)
    """
    kind = STRATEGIES[strategy]
    paired = kind.along != "WC" or pixels % max(1, lanes // 2) == 0
    return paired and kind.registers(pixels, filters, lanes, rows, kernel) <= registers


def register_blocks(strategy: str, lanes: int, registers: int, rows: int = 1,
                    kernel: Pair = (1, 1)) -> tuple[Pair, ...]:  # fmt: skip
    """Return all register blocks (pixels, filters) of so many rows that fit."""
    most = range(1, registers)
    return tuple(
        (pixels, filters)
        for pixels in most
        for filters in most
        if fits(strategy, pixels, filters, lanes, registers, rows, kernel)
    )


def block_sizes(problem: LoopProblem, step: int, dim: str) -> tuple[int, ...]:
    """Return the sizes of a dim's blocks: whole steps of the micro-kernel, less than all."""
    return tuple(range(step, problem.extent(dim), step))


def loops(strategy: str, blocked: Sequence[str]) -> tuple[str, ...]:
    """Return the loops around a micro-kernel, without its own.

    >>> loops("filters-yxc", ("H", "C"))
    ('M', 'H.o', 'H.i', 'W', 'C.o')
    """
    names = []
    for dim in DIMS:
        own = dim in STRATEGIES[strategy].own
        if dim in blocked:
            names += [f"{dim}.o"] if own else [f"{dim}.o", f"{dim}.i"]
        elif not own:
            names.append(dim)
    return tuple(names)


def may_follow(path: Sequence[str], loop: str, names: Sequence[str] = ()) -> bool:
    """Whether a loop may stand inside of those of ``path``, outermost first.

    An inner loop follows its own outer one, and no outer loop is inside of any inner one. With the
    ``names`` of all loops no path that may go on ends before it has them all.

    >>> may_follow(("H.o",), "H.i"), may_follow(("M",), "H.i"), may_follow(("H.o", "H.i"), "W.o")
    (True, False, False)
    >>> may_follow(("H.o",), "H.i", ("H.o", "H.i", "W.o", "W.i"))
    False
    """
    dim, _, role = loop.partition(".")
    if loop in path:
        return False
    if role == "i":
        waiting = any(other.endswith(".o") and other not in path for other in names)
        return f"{dim}.o" in path and not waiting
    return role != "o" or not any(other.endswith(".i") for other in path)


def is_order(path: Sequence[str], names: Sequence[str]) -> bool:
    """Whether ``path`` is a legal order of all loops ``names``."""
    steps = all(may_follow(path[:place], loop) for place, loop in enumerate(path))
    return steps and sorted(path) == sorted(names)


def orders(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return all legal orders of these loops, by name.

    >>> orders(("H.o", "H.i", "W"))
    [('H.o', 'H.i', 'W'), ('H.o', 'W', 'H.i'), ('W', 'H.o', 'H.i')]
    """
    paths: list[tuple[str, ...]] = [()]
    for _ in names:
        paths = [(*path, loop) for path in paths for loop in names if may_follow(path, loop, names)]
    return paths


def unrollable(strategy: str, order: Sequence[str]) -> tuple[str, ...]:
    """Return the loops that may be unrolled: not the outer ones of blocks, nor an outermost one
    over outputs, whose steps are the threads' parts.

    >>> unrollable("filters-c", ("H", "M", "W", "Y", "X"))
    ('M', 'W', 'Y', 'X', 'C')
    """
    shared = [loop for loop in order[:1] if loop[0] not in SUMMED]
    inner = [loop for loop in order if not loop.endswith(".o") and loop not in shared]
    return (*inner, *STRATEGIES[strategy].loops)


# ---- all rules at once ---------------------------------------------------------------------------


def flaws(problem: LoopProblem, nest: Parameters, target: Target) -> list[str]:
    """Return what is wrong with the parameters of a nest, "argument: got X; allowed: Y" each."""
    lanes = target.lanes(problem.dtype)
    if nest.strategy not in STRATEGIES:
        return [f"strategy: got {nest.strategy!r}; allowed: {', '.join(STRATEGIES)}"]
    name, blocked = nest.strategy, [dim for dim, _ in nest.blocks]
    names = loops(name, blocked)
    wrong = []
    for what, value, allowed in (
        ("strategy", name, strategies(target, problem.kernel)),
        ("image", nest.image, image_layouts(problem, name)),
        ("kernel", nest.kernel, kernel_layouts(name)),
        ("output", nest.output, output_layouts(name)),
        ("copies", nest.copies, copies(problem, nest.image, name)),
        ("dtype", nest.dtype, (problem.dtype,)),
        ("widened", nest.widened, widened(problem, name, nest.kernel)),
    ):
        if value not in allowed:
            wrong.append(f"{what}: got {value!r}; allowed: {', '.join(allowed)}")
    for what in ("pixels", "filters", "rows"):
        count = getattr(nest, what)
        if not isinstance(count, int) or count < 1:
            return [*wrong, f"{what}: got {count!r}; allowed: a positive int"]
    most = rows(problem, name, nest.copies)[-1]
    if nest.rows > most:
        wrong.append(f"rows: got {nest.rows}; allowed: at most {most} of {name}, {nest.copies}")
    block = nest.pixels, nest.filters
    if not fits(name, *block, lanes, target.registers, nest.rows, problem.kernel):
        several = f" of {nest.rows} rows" if nest.rows > 1 else ""
        wrong.append(
            f"pixels: got {nest.pixels} x {nest.filters} filters{several}; allowed: a register "
            f"block of {name} within {target.registers} registers"
        )
    for dim, size in nest.blocks:
        step = nest.step(dim, lanes) if dim in DIMS else 1
        if dim in nest.kind.resident:
            step = problem.extent(dim)
        if dim not in DIMS or size < 1 or size % step or size >= problem.extent(dim):
            wrong.append(
                f"blocks: got {size} of {dim}; allowed: multiples of {step} below "
                f"{problem.extent(dim) if dim in DIMS else 'the extent of one of ' + str(DIMS)}"
            )
    if len(set(blocked)) < len(blocked) or not is_order(nest.order, names):
        wrong.append(
            f"order: got {', '.join(nest.order)}; allowed: {', '.join(names)}, an inner loop after "
            "its outer one, no outer loop after an inner one"
        )
    for loop, times in nest.unroll:
        allowed_loops = unrollable(name, nest.order)
        if loop not in allowed_loops or times not in UNROLLS:
            wrong.append(
                f"unroll: got {times} of {loop}; allowed: {', '.join(map(str, UNROLLS))} of "
                f"{', '.join(allowed_loops)}"
            )
    if nest.prefetch is not None:
        ahead = nest.prefetch
        if (
            not set(ahead.streams) <= set(STREAMS)
            or ahead.distance < 0
            or ahead.level not in (1, 2)
        ):
            wrong.append(
                f"prefetch: got {ahead}; allowed: streams of {', '.join(STREAMS)}, a distance of "
                "at least 0 bytes, level 1 or 2"
            )
    return wrong


def check(problem: LoopProblem, nest: Parameters, target: Target) -> Parameters:
    """Return ``nest`` if it is legal; raises InvalidValue that names what is not."""
    wrong = flaws(problem, nest, target)
    if wrong:
        raise InvalidValue(f"nest: {wrong[0]}")
    return nest
