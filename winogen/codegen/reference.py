"""What a layer computes, for programs in other languages that compute it again, plainly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from winogen.records import Epilogue

_PRODUCTS = 20_000_000  # that a test computes: about a second of a program that is not optimised


@dataclass(frozen=True)
class Codes:
    """What the numbers of a layer of bytes stand for."""

    sums: bool  # whether outputs are the sums themselves
    x_zero: int
    y_zero: int
    limits: tuple[int, int]  # of outputs
    # Whether an activation or an addition takes real numbers; else multipliers have all scales,
    # and an activation is one of the limits.
    in_reals: bool = False
    y_scale: float = 1.0
    add_scale: float = 0.0
    add_zero: int = 0


@dataclass(frozen=True)
class Reference:
    """A convolution along one to three axes, whose numbers are those of a group; or a transposed
    one, whose padding is left out of the output.
    """

    batch: int
    groups: int
    channels: int
    filters: int
    size: Sequence[int]  # of the input, along each axis
    output_size: Sequence[int]
    kernel: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]
    before: Sequence[int]  # padding, at the beginning of each axis
    planar: bool  # whether channels come before pixels
    dtype: str  # of input and output
    epilogue: Epilogue
    error: float = 0.0  # max |y - y_exact| / max |y_exact|, as predicted
    mode: str = "zeros"  # of the padding
    transposed: bool = False
    codes: Codes | None = None  # None: arrays hold floats

    @property
    def step(self) -> int:
        """Every so many outputs are computed by a test, an odd number."""
        outputs = self.batch * self.groups * self.filters * prod(self.output_size)
        products = outputs * self.channels * prod(self.kernel)
        return products // _PRODUCTS // 2 * 2 + 1
