"""Strided correlation: one bilinear algorithm made of the polyphase parts of the filter.

    y[i] = sum_k g[k] d[s*i + k]

The taps k = j, j + s, j + 2s, ... see only the samples j, j + s, ... of the input, by a correlation
of stride 1. So the strided algorithm is those of its s parts side by side, and their outputs are
added by the output transform: A^T = [A_0^T | A_1^T | ...].
"""

from __future__ import annotations

from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.cooktoom import cook_toom
from winogen.algebra.points import check_size, check_stride
from winogen.algebra.scalar import Matrix, Scalar, as_scalar, matrix


def strided_parts(r: int, stride: int) -> tuple[range, ...]:
    """Return the taps of every polyphase part that has some.

    >>> strided_parts(3, 2)
    (range(0, 3, 2), range(1, 3, 2))
    """
    return tuple(range(j, r, stride) for j in range(min(r, stride)))


def strided(m: int, r: int, stride: int) -> BilinearAlgorithm:
    """Return F(m, r) at a stride: m outputs, ``stride`` inputs apart, of a filter of r taps.

    Part j has the default points of F(m, r_j) for its r_j taps. With r >= stride the products are
    stride * (m - 1) + r, one per input, where the definition takes m * r.

    Raises
    ------
    InvalidValue, InvalidType
        m, r or stride is no integer >= 1, or there are no default points for the longest part.

    >>> f = strided(4, 3, 2)  # the parts F(4, 2) and F(4, 1)
    >>> f, f.n, f.products, f.verify()
    (<BilinearAlgorithm F(4, 3) at stride 2>, 9, 9, True)
    >>> [int(y) for y in f([1, 10, 100], range(9))]
    [210, 432, 654, 876]
    """
    m, r, _ = check_size(m, r)
    stride = check_stride(stride)
    if stride == 1:
        return cook_toom(m, r)
    at: list[list[Scalar]] = [[] for _ in range(m)]
    g: list[list[Scalar]] = []
    bt: list[list[Scalar]] = []
    for taps in strided_parts(r, stride):
        part = cook_toom(m, len(taps))
        inputs = range(taps.start, stride * (m - 1) + r, stride)[: part.n]
        g += _scattered(part.g, taps, r)
        bt += _scattered(part.bt, inputs, stride * (m - 1) + r)
        for row, more in zip(at, part.at):
            row += more
    return BilinearAlgorithm(
        m=m, r=r, at=matrix(at), g=matrix(g), bt=matrix(bt), points=(), stride=stride
    )


def _scattered(rows: Matrix, places: range, size: int) -> list[list[Scalar]]:
    """The rows with their columns at these places of longer ones, zeros elsewhere."""
    wide = []
    for row in rows:
        wide.append([as_scalar(0)] * size)
        for place, value in zip(places, row):
            wide[-1][place] = value
    return wide
