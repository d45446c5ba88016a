"""Products of nets by the schemes of Maji's thesis, side by side: chapters 3 and 4, by counting.

*Direct* convolution; *Winograd*, F(m×m, r×r); *ADaPT*, two stages of low rank; *FALCON*, these
two by F(m, r) along their axes. Tiles count as if maps were whole numbers of them. Where a scheme
does not apply a layer stays as it is: of one tap, or with a stride along the axis of a transform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from winogen.columns import aligned
from winogen.conv.problem import Problem, plane_of
from winogen.errors import InvalidValue
from winogen.lowrank.form import FIRSTS, Form
from winogen.records import Axis

SCHEMES = ("Winograd", "ADaPT", "FALCON")


@dataclass(frozen=True)
class Counted:
    """Products of a layer by each scheme; ``rank`` is None where it has no two stages."""

    layer: str
    rank: int | None
    full_rank: int | None
    direct: int
    products: dict[str, int]  # by `SCHEMES`

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return vars(self)


def has_stages(problem: Problem) -> bool:
    """Whether a layer has several taps along both axes."""
    return problem.layer.rank == 2 and min(plane_of(problem.layer.kernel)) > 1


def counted(
    problems: Sequence[Problem], tile: int, factor: float, ranks: Sequence[int] | None = None
) -> list[Counted]:
    """Return the products of each layer.

    ``factor``: how many times fewer products stages are to have. ``ranks``: instead, a rank for
    each layer that has stages, in the order of the net. Raises InvalidValue for other numbers of
    ranks, and for ranks that a layer does not have.
    """
    staged = sum(map(has_stages, problems))
    if ranks is not None and len(ranks) != staged:
        raise InvalidValue(
            f"ranks: got {len(ranks)}; allowed: one for each of the {staged} layers of several "
            "taps along both axes"
        )
    left = iter(ranks or ())
    return [
        _counted(problem, tile, factor, next(left, None) if has_stages(problem) else None)
        for problem in problems
    ]


def _counted(problem: Problem, tile: int, factor: float, rank: int | None) -> Counted:
    direct, axes = problem.direct_multiplications, problem.layer.plane
    exact = direct * prod(_kept(axis, tile) for axis in axes)
    name = _name(problem)
    if not has_stages(problem):
        same = {"Winograd": round(exact), "ADaPT": direct, "FALCON": round(exact)}
        return Counted(name, None, None, direct, same)
    form = min((Form.of(problem.layer, first) for first in FIRSTS), key=lambda one: one.products(1))
    rank = form.rank(factor) if rank is None else rank
    if not 1 <= rank <= form.full_rank:
        raise InvalidValue(f"ranks: got {rank} for {name}; allowed: from 1 to {form.full_rank}")
    pixels = direct // form.direct_products
    one, other = axes if form.first == "columns" else axes[::-1]
    stages = (
        form.taps[0] * form.channels * form.step,
        form.taps[1] * form.filters,
    )
    falcon = sum(
        pixels * form.groups * rank * stage * _kept(axis, tile)
        for stage, axis in zip(stages, (one, other))
    )
    products = (round(exact), pixels * form.products(rank), round(falcon))
    return Counted(name, rank, form.full_rank, direct, dict(zip(SCHEMES, products)))


def _kept(axis: Axis, tile: int) -> float:
    """The share of products that F(m, r) has along an axis."""
    taps = axis.kernel
    return (tile + taps - 1) / (tile * taps) if taps > 1 and axis.stride == 1 else 1.0


def _name(problem: Problem) -> str:
    (height, width), layer = plane_of(problem.size), problem.layer
    taps = "x".join(map(str, layer.kernel))
    return f"{height}x{width}x{layer.channels}-{layer.filters}, {taps}"


def factors(rows: Sequence[Counted]) -> dict[str, float]:
    """Return how many times fewer products all layers together have."""
    direct = sum(row.direct for row in rows)
    return {name: direct / sum(row.products[name] for row in rows) for name in SCHEMES}


def render_nets(nets: dict[str, list[Counted]]) -> str:
    """Return a line for each net."""
    head = ["net", "layers", "with stages", "products, 10^9", *SCHEMES]
    return "\n".join(aligned([head, *(
        [name, str(len(rows)), str(sum(row.rank is not None for row in rows)),
         f"{sum(row.direct for row in rows) / 1e9:.3f}",
         *(f"{one:.2f}" for one in factors(rows).values())]
        for name, rows in nets.items()
    )], left=1))  # fmt: skip


def render_layers(rows: Sequence[Counted]) -> str:
    """Return a line for each layer, and one for all."""
    head = ["layer", "rank", "of", "products, 10^6", *SCHEMES]
    lines = [
        [row.layer, *("" if one is None else str(one) for one in (row.rank, row.full_rank)),
         f"{row.direct / 1e6:,.1f}", *(f"{one:.2f}" for one in factors([row]).values())]
        for row in rows
    ]  # fmt: skip
    whole = f"{sum(row.direct for row in rows) / 1e6:,.1f}"
    total = ["all", "", "", whole, *(f"{one:.2f}" for one in factors(rows).values())]
    return "\n".join(aligned([head, *lines, total], left=1))
