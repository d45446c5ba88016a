"""Promising candidates of one structure, found by the estimate alone."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np

from winogen.numerics.search.batch import matrices
from winogen.numerics.search.screen import screen
from winogen.numerics.search.spaces import Structure

_EXHAUSTIVE = 20_000  # up to this many candidates all are looked at
_CHUNK = 2_000


def choices(structure: Structure, height: int) -> float:
    """How many candidates a structure has, duplicates and clashes not taken off."""
    total = 1.0
    for name in dict.fromkeys(structure.slots):
        size = len(structure.grids(height)[structure.slots.index(name)])
        total *= math.comb(size, structure.slots.count(name))
    return total


def is_small(structure: Structure, height: int) -> bool:
    """Whether all candidates of the structure can be looked at, so that one proposal has them."""
    return choices(structure, height) <= _EXHAUSTIVE


Look = Callable[[list[tuple]], None]  # takes in the estimates of candidates


def propose(
    structure: Structure,
    m: int,
    r: int,
    height: int,
    dims: int,
    settings: dict,
    start: int,
    keep: int,
) -> list[tuple[float, tuple]]:
    """Return up to ``keep`` (estimated error, values) of a structure, the best first.

    A small structure is searched to the end. For a large one, coordinate exchange from a random
    start: one slot after the other takes its best value while the others stay, then two at a time
    move to neighbouring values, until nothing gets better. ``start`` seeds the random numbers.
    """

    def errors(values: list[tuple]) -> np.ndarray:
        return screen(matrices(m, r, structure.batch(values)), dims, settings)

    error_of: dict[tuple, float] = {}

    def look(candidates: list[tuple]) -> None:
        canonical = (structure.canonical(values) for values in candidates)
        unseen = {values for values in canonical if values is not None} - error_of.keys()
        new = sorted(unseen, key=str)  # one order on every machine
        for first in range(0, len(new), _CHUNK):
            part = new[first : first + _CHUNK]
            error_of.update(zip(part, errors(part).tolist()))

    if is_small(structure, height):
        look(_all(structure, height))
    else:
        _exchange(structure, height, error_of, look, np.random.default_rng(start))
    best = heapq.nsmallest(keep, error_of.items(), key=lambda item: (item[1], str(item[0])))
    return [(error, values) for values, error in best if math.isfinite(error)]


def _all(structure: Structure, height: int) -> list[tuple]:
    grids = structure.grids(height)
    kinds = list(dict.fromkeys(structure.slots))
    groups = [
        combinations(grids[structure.slots.index(name)], structure.slots.count(name))
        for name in kinds
    ]
    return [sum(parts, ()) for parts in product(*groups)]


def _exchange(
    structure: Structure, height: int, found: dict, look: Look, rng: np.random.Generator
) -> None:
    grids = structure.grids(height)
    current = None
    while current is None:
        # Spread over the logarithmic scale, as good sets are.
        current = structure.canonical(tuple(_draw(grid, rng) for grid in grids))
    look([current])
    grids = _aligned(structure, grids)
    while True:
        before = found[current]
        for slot in rng.permutation(len(grids)):
            current = _best(
                structure, current, [(slot, value) for value in grids[slot]], found, look
            )
        if found[current] < before:
            continue
        moves = []
        for a, b in combinations(range(len(grids)), 2):
            near_a, near_b = (_neighbours(grids[k], current[k]) for k in (a, b))
            moves += [((a, x), (b, y)) for x in near_a for y in near_b]
        current = _best(structure, current, moves, found, look)
        if found[current] == before:
            return


def _aligned(structure: Structure, grids: list[tuple]) -> list[tuple]:
    """The grids in the order in which `Structure.canonical` puts the values."""
    return [
        grid
        for name in dict.fromkeys(structure.slots)
        for slot, grid in zip(structure.slots, grids)
        if slot == name
    ]


def _best(structure: Structure, current: tuple, moves: list, found: dict, look: Look) -> tuple:
    """The best of ``current`` and what the moves, (slot, value) or several of them, make of it."""
    tried = []
    for move in moves:
        values = list(current)
        for slot, value in move if isinstance(move[0], tuple) else (move,):
            values[slot] = value
        tried.append(tuple(values))
    look(tried)
    canonical = (structure.canonical(values) for values in tried)
    neighbours = {values for values in canonical if values is not None}
    return min([current, *neighbours], key=lambda values: (found[values], str(values)))


def _neighbours(grid: tuple, value: Any, reach: int = 2) -> tuple:
    k = grid.index(value)
    return grid[max(0, k - reach) : k + reach + 1]


def _draw(grid: tuple, rng: np.random.Generator) -> Any:
    if isinstance(grid[0], tuple):
        return grid[rng.integers(len(grid))]
    sizes = np.log(np.abs(np.array([float(v) for v in grid])))
    width = np.gradient(sizes) if len(grid) > 1 else np.ones(1)
    weights = np.abs(width) + 1e-9
    return grid[rng.choice(len(grid), p=weights / weights.sum())]
