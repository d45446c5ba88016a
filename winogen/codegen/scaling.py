"""Free row scalings: constants moved from the output transform into the filter transform.

Column a of A^T may be multiplied by any s and row a of G divided by it: the result stays the same,
and filters are transformed once. A row of A^T whose constants are all other than ±1 costs one
multiplication that a row with a ±1 does without, so the scalings are chosen to give every row one:

    y1 = 5/8 (p1 - p2) + 3/2 (p3 - p4)      ->      y1 = (p1 - p2) + 2/3 (p3 - p4)

B^T needs none of this: its rows are coefficients of monic polynomials.
"""

from __future__ import annotations

import math
from fractions import Fraction


def lighten(algorithm):
    """Return (algorithm rescaled for a short output transform, factors of the columns of A^T).

    Products of opposite points share their factor, which keeps the sums and differences that
    both use. Among the choices that leave the fewest rows without a ±1, factors near 1 win: they
    change the size of the products least. The factors are all 1 where nothing is gained.

    >>> from winogen.algebra import cook_toom
    >>> _, factors = lighten(cook_toom(4, 3))
    >>> [str(factor) for factor in factors]
    ['1', '8/5', '8/5', '4/9', '4/9', '1']
    """
    one = Fraction(1)
    columns = list(zip(*(tuple(abs(entry) for entry in row) for row in algorithm.at)))
    groups: dict[tuple, list[int]] = {}
    for product, column in enumerate(columns):
        groups.setdefault(column, []).append(product)

    # Group by group, which rows can have a ±1 (a bit mask) -> the least distortion and its factors.
    reached: dict[int, tuple[float, tuple]] = {0: (0.0, ())}
    for column in groups:
        following: dict[int, tuple[float, tuple]] = {}
        for factor in dict.fromkeys([one, *(1 / entry for entry in column if entry != 0)]):
            rows = sum(1 << i for i, entry in enumerate(column) if entry * factor == 1)
            distortion = abs(math.log2(float(factor)))
            for mask, (total, factors) in reached.items():
                found = (total + distortion, (*factors, factor))
                old = following.get(mask | rows)
                if old is None or found[0] < old[0]:
                    following[mask | rows] = found
        reached = following
    _, chosen = min(
        reached.items(), key=lambda item: (algorithm.m - item[0].bit_count(), item[1][0])
    )
    factors = [one] * algorithm.products
    for products, factor in zip(groups.values(), chosen[1]):
        for product in products:
            factors[product] = factor
    if all(factor == 1 for factor in factors):
        return algorithm, tuple(factors)
    return algorithm.scale(output=factors), tuple(factors)
