"""Exact algorithms for F(m, r): points or moduli in, verified matrices A^T, G, B^T out."""

from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.cooktoom import cook_toom
from winogen.algebra.crt import winograd
from winogen.algebra.nest import BilinearAlgorithm2D, nest
from winogen.algebra.points import INFINITY, PointSet, default_points, parse_points
from winogen.algebra.scalar import Algebraic, as_scalar

__all__ = [
    "INFINITY",
    "Algebraic",
    "BilinearAlgorithm",
    "BilinearAlgorithm2D",
    "PointSet",
    "as_scalar",
    "cook_toom",
    "default_points",
    "nest",
    "parse_points",
    "winograd",
]


def __dir__() -> list[str]:
    return __all__
