"""How often a nest loads, stores, multiplies and adds: counted on the tree, without running it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from winogen_lab.loops.nest import (
    Body,
    For,
    Guard,
    HAdd,
    Load,
    Nest,
    Node,
    Permute,
    Store,
    children,
    depends,
    least,
    walk,
)

_OPERANDS = ("image", "tile", "kernel", "wide")


@dataclass(frozen=True)
class Counts:
    """Vector instructions of one group and image, all parts together; copies are not counted."""

    fmas: int
    operand_loads: int  # of inputs and filters, vectors and single numbers
    sum_loads: int  # of outputs that are not complete, and of the bias
    sum_stores: int
    horizontal_adds: int
    permutations: int

    @property
    def loads_per_fma(self) -> float:
        """Loads of operands for each multiply-add."""
        return self.operand_loads / self.fmas


def count(nest: Nest) -> Counts:
    """Return the counts of a nest.

    >>> from winogen_lab.loops.build import build
    >>> from winogen_lab.loops.parameters import LoopProblem, Parameters
    >>> from winogen.records import TARGETS
    >>> layer = LoopProblem.of("NHWC", 8, 32, (4, 28), (3, 3))
    >>> nest = Parameters("filters-yxc", "HWC", "MYXCm", "HWM", ("H", "M", "W"), pixels=13,
    ...                   filters=2)
    >>> counts = count(build(layer, nest, TARGETS["avx512"]))
    >>> counts.fmas, counts.loads_per_fma == (13 + 2) / (13 * 2)
    (7488, True)
    """
    totals = _count(nest.body, {})
    return Counts(
        fmas=totals["Fma"],
        operand_loads=sum(totals[f"Load {name}"] for name in _OPERANDS),
        sum_loads=sum(totals[f"Load {name}"] for name in ("bias", "output", "sums")),
        sum_stores=totals["Store"],
        horizontal_adds=totals[HAdd.__name__],
        permutations=totals[Permute.__name__] + totals["Unscramble"],
    )


def _count(body: Body, at: dict[str, int]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for node in body:
        if isinstance(node, For):
            totals += _loop(node, at)
        elif isinstance(node, Guard):
            holds = all(form.value(at) >= 0 for form in node.conditions)
            totals += _count(node.body if holds else node.otherwise, at)
        elif isinstance(node, Load):
            totals[f"Load {node.array}"] += 1
        else:
            totals[Store.__name__ if isinstance(node, Store) else type(node).__name__] += 1
    return totals


def _loop(node: For, at: dict[str, int]) -> Counter[str]:
    """Steps that are all alike are counted once."""
    begin = at[node.index] if node.resumes else node.low.value(at)
    end = least(node.high, at)
    steps = range(begin, max(begin, end), node.step)
    totals: Counter[str] = Counter()
    if any(_is_bounded_by(inner, node.index) for inner in walk(node.body)):
        for step in steps:
            totals += _count(node.body, {**at, node.index: step})
    else:
        one = _count(node.body, {**at, node.index: begin})
        totals = Counter({name: times * len(steps) for name, times in one.items()})
    at[node.index] = begin + len(steps) * node.step
    return totals


def _is_bounded_by(node: Node, index: str) -> bool:
    """Whether what happens inside of a statement depends on an index."""
    return bool(children(node)) and depends(node, index)
