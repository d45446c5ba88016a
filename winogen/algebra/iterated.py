"""One short algorithm within another along one axis: F(m, r_o r_i) of F(m_o, r_o), F(m_i, r_i).

With s = r_i every tap is k = s a + b and every output i = s p + q, and so

    y[s p + q] = sum_a sum_b g[s a + b] d[s (p + a) + (q + b)]

is a correlation over two axes, of r_o x s taps on D[u][v] = d[s u + v], whose rows overlap. The
inner algorithm runs along each row, the outer one across them. Their points stay few and close to
1, where n points on one line would lose all digits; the price is (m_o + r_o - 1)(m_i + s - 1)
products in place of n = m + r - 1, as no row uses what it shares with the next.

Source: Agarwal & Burrus, Fast one-dimensional digital convolution by multidimensional techniques,
1974; Maji, thesis, section 4.8.3 ("nesting" along one axis, for long filters).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.points import Point, check_size, default_points
from winogen.algebra.scalar import Scalar, as_scalar
from winogen.algebra.size import listed, shown
from winogen.errors import InvalidType, InvalidValue
from winogen.spelling import WITHIN

LARGEST_PART = 13  # n of the largest part whose default points keep enough digits


class Sizes(NamedTuple):
    """m and r of the outer and of the inner algorithm.

    >>> Sizes(3, 3, 3, 3).m, Sizes(3, 3, 3, 3).r, Sizes(3, 3, 3, 3).products
    (9, 9, 25)
    """

    outer_m: int
    outer_r: int
    inner_m: int
    inner_r: int

    @property
    def m(self) -> int:
        """Outputs of the whole: those of the last row reach as far as the inner algorithm does."""
        return self.inner_r * (self.outer_m - 1) + self.inner_m

    @property
    def r(self) -> int:
        """Taps of the whole."""
        return self.outer_r * self.inner_r

    @property
    def products(self) -> int:
        """Products of the whole where each part has one per point."""
        return (self.outer_m + self.outer_r - 1) * (self.inner_m + self.inner_r - 1)

    @property
    def fits(self) -> bool:
        """Whether rows of outputs leave no gap between them."""
        return self.outer_m == 1 or self.inner_m >= self.inner_r

    @property
    def short(self) -> bool:
        """Whether both parts have so few points that default ones keep enough digits."""
        across, along = self.outer_m + self.outer_r - 1, self.inner_m + self.inner_r - 1
        return along <= LARGEST_PART and (self.outer_m == 1 or across <= LARGEST_PART)

    def output(self, i: int) -> tuple[int, int]:
        """The row and the place in it that have output i; of the rows that do, the last."""
        row = min(i // self.inner_r, self.outer_m - 1)
        return row, i - self.inner_r * row


def iterate(outer: BilinearAlgorithm, inner: BilinearAlgorithm) -> BilinearAlgorithm:
    """Return F(m, r) with r = outer.r * inner.r and m = inner.r * (outer.m - 1) + inner.m.

    ``inner`` runs on windows of the tile, ``outer`` across them. Product a of ``outer`` and b of
    ``inner`` make product a * inner.products + b. The result can be iterated in turn.

    Raises
    ------
    InvalidType
        Not two ``BilinearAlgorithm``s.
    InvalidValue
        One is in the linear form or has a stride, or outputs would be missing: with outer.m > 1,
        inner.m < inner.r.

    >>> from winogen.algebra import cook_toom
    >>> f = iterate(cook_toom(3, 3), cook_toom(3, 3))
    >>> f.m, f.r, f.n, f.products, f.verify()
    (9, 9, 17, 25, True)
    >>> f
    <BilinearAlgorithm F(9, 9) on 1/3, -1/3, 5/4, -5/4, inf; 1/3, -1/3, ...>
    """
    for name, value in (("outer", outer), ("inner", inner)):
        if not isinstance(value, BilinearAlgorithm):
            raise InvalidType(
                f"{name}: got {value!r} of type {type(value).__name__}; "
                "allowed: a BilinearAlgorithm"
            )
        if value.form != "fir" or value.stride != 1:
            raise InvalidValue(
                f"{name}: got the form {value.form!r} at stride {value.stride}; allowed: 'fir' at "
                "stride 1"
            )
    sizes = Sizes(outer.m, outer.r, inner.m, inner.r)
    if not sizes.fits:
        raise InvalidValue(
            f"inner: got {inner.m} outputs of {inner.r} taps within {outer.m} rows, which leaves "
            f"gaps; allowed: at least {inner.r} outputs, or an outer algorithm of one output"
        )
    step, n = inner.r, sizes.m + sizes.r - 1
    at = [
        tuple(x * y for x in outer.at[row] for y in inner.at[place])
        for row, place in map(sizes.output, range(sizes.m))
    ]
    g = [tuple(x * y for x in up for y in along) for up in outer.g for along in inner.g]
    bt = [_overlapping(up, along, step, n) for up in outer.bt for along in inner.bt]
    known = all(f.points is not None and WITHIN not in f.points for f in (outer, inner))
    named = known and bool(inner.points) and (bool(outer.points) or outer.m == 1)
    points = (*(outer.points or ()), WITHIN, *(inner.points or ())) if named else ()
    return BilinearAlgorithm(
        m=sizes.m, r=sizes.r, at=tuple(at), g=tuple(g), bt=tuple(bt), points=points
    )


def split(
    m: int, r: int, points: tuple[Point, ...]
) -> tuple[Sizes, tuple[Point, ...], tuple[Point, ...]]:
    """Return the sizes of both algorithms, the points of the outer one, those of the inner one.

    The numbers of points say the sizes: with a of the outer and b of the inner algorithm
    m + r - 1 = s (a - 1) + b. No point of the outer one: F(1, r / s), which needs none.

    Raises
    ------
    InvalidValue
        Not two lists of points, or no sizes that they fit.
    """
    m, r, n = check_size(m, r)
    lists: list[list[Point]] = [[]]
    for point in points:
        if point == WITHIN:
            lists.append([])
        else:
            lists[-1].append(point)
    if len(lists) != 2 or not lists[1]:
        raise InvalidValue(
            f"points: got {listed(points)}; allowed: those of the outer algorithm, a semicolon, "
            "those of the inner one"
        )
    outer, inner = map(tuple, lists)
    for sizes in all_sizes(m, r):
        across, along = sizes.outer_m + sizes.outer_r - 1, sizes.inner_m + sizes.inner_r - 1
        direct = not outer and sizes.outer_m == 1
        if along == len(inner) and (direct or across == len(outer)):
            return sizes, outer, inner
    counts = [
        f"{sizes.outer_m + sizes.outer_r - 1} and {sizes.inner_m + sizes.inner_r - 1}"
        for sizes in all_sizes(m, r)
    ]
    raise InvalidValue(
        f"points: got {len(outer)} of the outer and {len(inner)} of the inner algorithm for "
        f"F({shown(m)},{shown(r)}); allowed: "
        + (", ".join(counts) or f"one list of {shown(n)}, as {shown(r)} taps have no factor")
    )


def all_sizes(m: int, r: int) -> Iterator[Sizes]:
    """Yield how F(m, r) can be made of two, each of 2 taps or more, the fewest products first.

    >>> [tuple(sizes) for sizes in all_sizes(9, 9)]
    [(3, 3, 3, 3), (2, 3, 6, 3), (1, 3, 9, 3)]
    """
    m, r, _ = check_size(m, r)
    found = [
        Sizes(rows, r // step, m - step * (rows - 1), step)
        for step in range(2, r // 2 + 1)
        if r % step == 0
        for rows in range(1, max(1, m // step) + 1)
    ]
    largest = {
        sizes: max(sizes.outer_m + sizes.outer_r, sizes.inner_m + sizes.inner_r) for sizes in found
    }
    yield from sorted(
        (sizes for sizes in found if sizes.fits),
        key=lambda sizes: (sizes.products, largest[sizes], sizes),
    )


def iterated_points(m: int, r: int) -> tuple[Point, ...]:
    """Return points of the two algorithms that F(m, r) takes the fewest products by.

    Both have default points, at most 13. This is what ``points="iterated"`` means.

    Raises
    ------
    InvalidValue
        r has no factor, or one part would have more points.

    >>> print(*iterated_points(9, 9))
    1/3 -1/3 5/4 -5/4 inf ; 1/3 -1/3 5/4 -5/4 inf
    """
    for sizes in all_sizes(m, r):
        if sizes.short:
            outer = () if sizes.outer_m == 1 else default_points(*sizes[:2]).points
            return (*outer, WITHIN, *default_points(*sizes[2:]).points)
    raise InvalidValue(
        f"points: got 'iterated' for F({shown(m)},{shown(r)}); allowed: r with a factor, and so "
        f"few outputs that either algorithm has at most {LARGEST_PART} points"
    )


def _overlapping(
    across: tuple[Scalar, ...], along: tuple[Scalar, ...], step: int, n: int
) -> tuple[Scalar, ...]:
    """A row of B^T: that of D[u][v] = d[step u + v], where several u and v are the same input."""
    row = [as_scalar(0)] * n
    for u, x in enumerate(across):
        for v, y in enumerate(along):
            row[step * u + v] += x * y
    return tuple(row)
