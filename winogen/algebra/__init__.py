"""Exact bilinear algorithms: points or moduli in, verified matrices A^T, G, B^T of F(m, r) out;
and the proof of anybody's U, V, W for any bilinear map."""

from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.circle import default_moduli
from winogen.algebra.cooktoom import cook_toom
from winogen.algebra.crt import winograd
from winogen.algebra.decomposition import Decomposition
from winogen.algebra.iterated import iterate
from winogen.algebra.join import JoinedAlgorithm, join
from winogen.algebra.maps import (
    BilinearMap,
    by_tensor,
    complex_product,
    correlation,
    cyclic_convolution,
    matrix_product,
    polynomial_product,
    product_modulo,
)
from winogen.algebra.nest import BilinearAlgorithm2D, nest
from winogen.algebra.points import INFINITY, PointSet, default_points, parse_points
from winogen.algebra.reading import known, read_file
from winogen.algebra.recursion import recurse
from winogen.algebra.scalar import Algebraic, as_scalar
from winogen.algebra.strided import strided, strided_parts

__all__ = [
    "INFINITY",
    "Algebraic",
    "BilinearAlgorithm",
    "BilinearAlgorithm2D",
    "BilinearMap",
    "Decomposition",
    "JoinedAlgorithm",
    "PointSet",
    "as_scalar",
    "by_tensor",
    "complex_product",
    "cook_toom",
    "correlation",
    "cyclic_convolution",
    "default_moduli",
    "default_points",
    "iterate",
    "join",
    "known",
    "matrix_product",
    "nest",
    "parse_points",
    "polynomial_product",
    "product_modulo",
    "read_file",
    "recurse",
    "strided",
    "strided_parts",
    "winograd",
]


def __dir__() -> list[str]:
    return __all__
