"""The integers of an engine: its transform, how far values grow, and what its sums hold.

The thesis rounds transformed values to N bits, so that sums of W bits hold 2^(W - 2N) channels:
65,536 of bytes in 32 bits. Exact integers keep every bit: operands grow by the transforms, and sums
have to hold a result times the scale of the algorithm (`winogen.fixed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log2, prod
from typing import TYPE_CHECKING

from winogen.conv.arguments import whole
from winogen.errors import Unsupported
from winogen.fixed.integral import Integral, integral
from winogen.fixed.ranges import signed

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.hardware.engine import Engine
    from winogen.hardware.mapping import Mapping

# Small integers and their inverses keep numbers short, which is what multipliers of integers want.
_POINTS = "0", "1", "-1", "2", "-2", "1/2", "-1/2", "4", "-4"
_LEAST_BITS, _MOST_BITS = 2, 16


@lru_cache(maxsize=64)
def transform(engine: Engine) -> BilinearAlgorithm:
    """Return the algorithm of an engine along an axis: F(m, r) of T products.

    On the points 0, 1, -1, 2, -2, 1/2, -1/2, 4 and -4, the last of all infinity; of one tap by
    nothing, the identity. Where tiles have
    one output less than points would give, x^2 + 1 takes the place of 2 and -2. Raises Unsupported
    for tiles that need more points, or more such polynomials.

    >>> from winogen.hardware import Engine
    >>> transform(Engine(8, 4, 8, 1))
    <BilinearAlgorithm F(2, 3) on 0, 1, -1, inf>
    >>> transform(Engine(8, 7, 8, 1, m=4))
    <BilinearAlgorithm F(4, 3) by x, x - 1, x + 1, x^2 + 1, inf>
    """
    from winogen.algebra import cook_toom, winograd
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.algebra.scalar import as_scalar, matrix

    m, r, T = engine.m, engine.r, engine.T
    if r == 1 and m == T:
        one, zero = as_scalar(1), as_scalar(0)
        identity = matrix([[one if i == j else zero for j in range(T)] for i in range(T)])
        taps = matrix([[one]] * T)
        return BilinearAlgorithm(m=T, r=1, at=identity, g=taps, bt=identity, points=())
    missing = T - (m + r - 1)
    finite = m + r - 2 - 2 * missing  # points beside infinity and x^2 + 1
    if not (missing in (0, 1) and 0 <= finite <= len(_POINTS)):
        raise Unsupported(
            f"T, m: got T = {T}, m = {m} for r = {r}; allowed: tiles of F(m, r) with "
            f"m + r - 1 = T up to {len(_POINTS) + 1}, or one less, for whole numbers"
        )
    if not missing:
        return cook_toom(m, r, ", ".join((*_POINTS[:finite], "inf")))
    names = (_modulus(point) for point in _POINTS[:finite])
    return winograd(m, r, ", ".join((*names, "x^2+1", "inf")))


def _modulus(point: str) -> str:
    """x minus a point."""
    sign = "+" if point.startswith("-") else "-"
    return "x" if point == "0" else f"x{sign}{point.lstrip('-')}"


@lru_cache(maxsize=64)
def integers(algorithm: BilinearAlgorithm) -> Integral:
    """Return the algorithm in integers; see `winogen.fixed.integral`."""
    return integral(algorithm)


def growth(rows: Sequence[Sequence[int]], axes: int = 2) -> float:
    """Return by how many bits a matrix of integers makes its inputs longer, at most.

    >>> from winogen import cook_toom
    >>> [round(growth(integers(cook_toom(m, 3, points)).bt), 2)
    ...  for m, points in ((2, "0,1,-1,inf"), (4, "0,1,-1,2,-2,inf"))]
    [2.0, 6.64]
    """
    return axes * log2(max(sum(map(abs, row)) for row in rows))


def held_channels(
    algorithm: BilinearAlgorithm,
    kernel: Sequence[int] = (),
    bits: int = 8,
    sums: int = 32,
    axes: int = 2,
) -> int:
    """Return how many channels of inputs and filters of so many bits the sums hold, exactly.

    ``kernel``: taps along both axes (default: r). ``axes``: how many of them are transformed.
    Raises InvalidValue for bits beyond 2 to 16.

    >>> from winogen import cook_toom, winograd
    >>> held_channels(cook_toom(4, 3, "0,1,-1,2,-2,inf"))
    227
    >>> held_channels(winograd(4, 3, "x, x-1, x+1, x^2+1, inf"))
    910
    """
    exact, r = integers(algorithm), algorithm.r
    byte = signed(check_bits("bits", bits))
    taps = prod(kernel or (r, r))
    return exact.channels(byte, byte, check_bits("sums", sums, 64), axes) * r**axes // taps


def rounded_channels(bits: int = 8, sums: int = 32) -> int:
    """Return how many channels the sums hold where transformed values are rounded to ``bits``.

    2 * bits + log2 C <= sums, as the thesis says.

    >>> rounded_channels()
    65536
    """
    spare = check_bits("sums", sums, 64) - 2 * check_bits("bits", bits)
    return 1 << spare if spare >= 0 else 0


def check_channels(
    mapping: Mapping, algorithm: BilinearAlgorithm | None, bits: int = 8, sums: int = 32
) -> None:
    """Raise Unsupported where a layer has more channels than the sums hold as it is laid out.

    ``algorithm``: of exact integers; None: transformed values are rounded to ``bits``.
    """
    layer = mapping.problem.layer
    axes = sum(part.taps > 1 for part in mapping.parts)
    channels = layer.channels // layer.groups
    if algorithm is None:
        most, why = rounded_channels(bits, sums), f"products of {bits} by {bits} bits"
    else:
        most = held_channels(algorithm, layer.kernel, bits, sums, axes)
        why = f"products of {bits} by {bits} bits"
        if axes:
            scale = integers(algorithm).spelled(axes)
            name = f"F({algorithm.m}, {algorithm.r})"
            why = f"{name} on {bits} bits, whose results are scaled by {scale}"
    if channels > most:
        raise Unsupported(
            f"weight: got {channels} channels; allowed: at most {most}, which sums of {sums} bits "
            f"hold of {why}"
        )


def check_bits(name: str, value: int, most: int = _MOST_BITS) -> int:
    """Return bits of integers from 2 to 16, or to ``most``; raises InvalidType, InvalidValue."""
    return whole(name, value, _LEAST_BITS, f"an int from {_LEAST_BITS} to {most}", most)
