"""typing: what the arguments of winogen's functions may be, for annotations and type checkers.

>>> from winogen.typing import Activation
>>> after: Activation = ("leaky_relu", 0.1)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from winogen.algebra.algebraic import Algebraic
    from winogen.algebra.polynomial import Polynomial
else:  # who only calls functions need not load the algebra
    Algebraic = Polynomial = object

__all__ = [
    "Activation",
    "Algorithm",
    "Array",
    "ArrayType",
    "Border",
    "BorderMode",
    "Edge",
    "Exact",
    "ExactPolynomial",
    "FilePath",
    "FilterType",
    "IntOrInts",
    "Layout",
    "Layout1d",
    "Layout2d",
    "Layout3d",
    "Moduli",
    "NDArray",
    "Order",
    "Padding",
    "PaddingMode",
    "Points",
    "ProductType",
    "Real",
    "Texts",
    "Tile",
]


class _HasArray(Protocol):
    def __array__(self) -> npt.NDArray[Any]: ...


class _HasInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class _HasDLPack(Protocol):
    def __dlpack__(self) -> Any: ...


FilePath: TypeAlias = str | os.PathLike[str]

NDArray: TypeAlias = npt.NDArray[Any]
# What numpy views without a copy, as a torch tensor on the CPU. Lists and numbers are none.
Array: TypeAlias = NDArray | _HasArray | _HasInterface | _HasDLPack | memoryview

Real: TypeAlias = float | np.floating[Any] | np.integer[Any]

# An int for all axes, or one for each: width, or height and width, or depth, height and width.
IntOrInts: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...] | list[int]
Tile: TypeAlias = IntOrInts
_Ends: TypeAlias = SupportsIndex | tuple[SupportsIndex, SupportsIndex] | list[int]
Ends: TypeAlias = tuple[_Ends, ...] | list[list[int]]  # before and after each axis
Padding: TypeAlias = (
    Literal["same", "valid", "causal"]
    | SupportsIndex
    | tuple[_Ends, ...]
    | list[int]
    | list[list[int]]
)

PaddingMode: TypeAlias = Literal["zeros", "reflect", "replicate", "circular"]
Layout1d: TypeAlias = Literal["NCW", "NWC"]
Layout2d: TypeAlias = Literal["NCHW", "NHWC"]
Layout3d: TypeAlias = Literal["NCDHW", "NDHWC"]
Layout: TypeAlias = Layout1d | Layout2d | Layout3d
Algorithm: TypeAlias = Literal[
    "auto", "direct", "im2col", "loops", "winograd1d", "winograd2d", "mcmr", "fft"
]
Order: TypeAlias = Literal["program", "huffman", "pairwise", "naive"]
Edge: TypeAlias = Literal["discard", "direct"]
# What `filter2d` makes up around a picture, as numpy.pad and `conv2d` spell it.
BorderMode: TypeAlias = Literal[
    "reflect", "symmetric", "edge", "replicate", "wrap", "circular", "constant", "zeros"
]
Border: TypeAlias = Literal["unswitch", "buffer", "indirect"]
FilterType: TypeAlias = Literal[
    "float16", "bfloat16",
    "flyte24", "flyte16", "flyte8", "flyte24_cut", "flyte16_cut", "flyte8_cut",
    "flyte56d", "flyte48d", "flyte40d", "flyte32d", "flyte24d", "flyte16d", "flyte8d",
]  # fmt: skip
ArrayType: TypeAlias = Literal["float32", "float64"] | FilterType
ProductType: TypeAlias = Literal["int16", "int8", "float16", "bfloat16"]

# Exact numbers and polynomials. sympy's have no types, so that any type checker lets them pass.
Exact: TypeAlias = int | str | Fraction | Algebraic
ExactPolynomial: TypeAlias = Exact | Polynomial | Sequence[int | Fraction]
# A set for all axes, or one for each, None for default points.
_Points: TypeAlias = str | Sequence[Exact]
_Moduli: TypeAlias = str | Sequence[ExactPolynomial]
Points: TypeAlias = _Points | tuple[_Points | None, ...]
Moduli: TypeAlias = _Moduli | tuple[_Moduli | None, ...]
# The same where only text can be handed on.
Texts: TypeAlias = str | tuple[str | None, ...]

# activations:
Activation: TypeAlias = (
    Literal["relu"]
    | tuple[Literal["leaky_relu"], float]
    | tuple[Literal["prelu"], Array | float]
    | tuple[Literal["clip"], float, float]
    | Literal["relu6"]
    | Literal["hardswish"]
    | Literal["silu"]
    | Literal["gelu"]
    | tuple[Literal["gelu"], Literal["tanh"]]
    | Literal["sigmoid"]
    | Literal["tanh"]
    | Literal["softplus"]
    | Literal["hard_sigmoid"]
    | tuple[Literal["hard_sigmoid"], float, float]
    | Literal["mish"]
    | Literal["elu"]
    | tuple[Literal["elu"], float]
)
# end
