"""Families whose candidates are known as a whole, beside those that slots are filled for.

"iterated" has two short algorithms along one axis, of the points that are estimated to be best for
each and the default ones; "circle" goes from Cook-Toom to Fourier, a pair of points on the unit
circle after the other; "fourier" is all factors of x^n - 1.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from itertools import islice, product

from winogen.algebra import default_points
from winogen.algebra.circle import between
from winogen.algebra.iterated import LARGEST_PART, all_sizes
from winogen.algebra.moduli import FOURIER, MOST_FOURIER
from winogen.errors import InvalidValue
from winogen.numerics.search.batch import Matrices
from winogen.numerics.search.candidate import Candidate
from winogen.numerics.search.propose import propose
from winogen.numerics.search.screen import screen
from winogen.numerics.search.spaces import structures
from winogen.spelling import WITHIN

_OF_EACH = 3  # sets of points of each part that are combined
_MOST_SIZES = 4  # ways to make F(m, r) of two that are looked at, those with the fewest products


def _circle(m: int, r: int, height: int, settings: dict, start: int) -> Iterator[Candidate]:
    n = m + r - 1
    for pairs in range(1, (n - 1) // 2 + 1):
        yield Candidate(m, r, moduli=tuple(str(q).replace(" ", "") for q in between(n, pairs)))


def _fourier(m: int, r: int, height: int, settings: dict, start: int) -> Iterator[Candidate]:
    candidate = Candidate(m, r, moduli=(FOURIER,))
    try:
        candidate.algorithm  # noqa: B018, which is made here and kept
    except InvalidValue as error:  # cosines of some n lie in fields of too high a degree
        raise InvalidValue(
            f"families: got fourier for F({m},{r}); allowed: without it, as {error}"
        ) from None
    yield candidate


def _iterated(m: int, r: int, height: int, settings: dict, start: int) -> Iterator[Candidate]:
    for sizes in islice((one for one in all_sizes(m, r) if one.short), _MOST_SIZES):
        outer = _parts(*sizes[:2], height, settings, start) if sizes.outer_m > 1 else [()]
        for across, along in product(outer, _parts(*sizes[2:], height, settings, start)):
            yield Candidate(m, r, points=(*across, WITHIN, *along))


def _parts(m: int, r: int, height: int, settings: dict, start: int) -> list[tuple[str, ...]]:
    """Sets of points of one part, the default ones first, the others by the estimate in 1D."""
    found: list[tuple[float, tuple[str, ...]]] = []
    for structure in structures(m, r):
        best = propose(structure, m, r, height, 1, settings, start, _OF_EACH)
        for error, values in best:
            found.append((error, structure.candidate(m, r, values).points or ()))
    chosen = [points for _, points in heapq.nsmallest(_OF_EACH, found)]
    default = tuple(map(str, default_points(m, r)))
    return [default, *(points for points in chosen if set(points) != set(default))]


WHOLE = {"iterated": _iterated, "circle": _circle, "fourier": _fourier}


def whole_candidates(
    family: str, m: int, r: int, height: int, dims: int, settings: dict, start: int, keep: int
) -> list[tuple[float, Candidate]]:
    """Return up to ``keep`` (estimated error, candidate) of a family, the best first."""
    priced = []
    for candidate in WHOLE[family](m, r, height, settings, start):
        arrays = Matrices(*(matrix[None] for matrix in candidate.algorithm.arrays()))
        error = float(screen(arrays, dims, settings)[0])
        if math.isfinite(error):
            priced.append((error, candidate))
    return heapq.nsmallest(keep, priced, key=lambda one: (one[0], str(one[1])))


def check_whole(family: str, m: int, r: int) -> None:
    """Raise InvalidValue where a family has nothing for F(m, r)."""
    n = m + r - 1
    some = {
        "iterated": any(sizes.short for sizes in all_sizes(m, r)),
        "circle": n >= 3,
        "fourier": n <= MOST_FOURIER,
    }
    if not some[family]:
        allowed = {
            "iterated": f"r with a factor, and parts of at most {LARGEST_PART} points",
            "circle": "m + r - 1 of at least 3",
            "fourier": f"m + r - 1 of at most {MOST_FOURIER}",
        }
        raise InvalidValue(f"families: got {family} for F({m},{r}); allowed: {allowed[family]}")
