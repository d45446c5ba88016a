"""The numbers that a quantised convolution is given besides its arrays, read and checked.

A real number r is stored as the integer q with r = scale * (q - zero). Weights are signed from here
on: uint8 ones and their zero points lose 128, which changes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from winogen.conv import arguments
from winogen.errors import InvalidType, InvalidValue

BYTES = ("uint8", "int8")
RANGES = {"uint8": (0, 255), "int8": (-128, 127)}
# From so many terms on, sums of products of an unsigned and a signed byte may pass 2^31 - 1.
TOO_MANY_TERMS = 65_793

SUMS = (-(1 << 31), (1 << 31) - 1)  # that int32 holds


@dataclass(frozen=True, eq=False)
class QuantizedFilters:
    """Weights as signed bytes, their zero points, and the bias; None for zeros."""

    weight: np.ndarray  # (M, C/groups, KH, KW), int8
    zero: np.ndarray | None  # (M,), int16
    bias: np.ndarray | None  # (M,), int32

    @classmethod
    def of(cls, weight: Any, zero: Any, bias: Any) -> QuantizedFilters:
        """Return them from arrays of one's own; raises InvalidType and InvalidValue."""
        w = integers("weight", weight, BYTES)
        if w.ndim != 4 or not w.size:
            raise InvalidValue(
                f"weight: got shape {w.shape}; allowed: 4 axes (M, C/groups, KH, KW) of at least 1"
            )
        check_terms(w.shape)
        lowest = RANGES[w.dtype.name][0]
        zeros = _zeros("w_zero", zero, len(w), RANGES[w.dtype.name], w.dtype) - lowest - 128
        signed = w if w.dtype == np.int8 else (w ^ np.uint8(128)).view(np.int8)
        if bias is not None:
            bias = np.array(integers("bias", bias, ("int32",)), order="C")
            if bias.shape != (len(w),):
                raise InvalidValue(
                    f"bias: got shape {bias.shape}; allowed: ({len(w)},), one value per filter of "
                    "weight"
                )
        return cls(
            np.array(signed, order="C"), zeros.astype(np.int16) if zeros.any() else None, bias
        )

    def check_sums(self, lowest: int, highest: int) -> None:
        """Refuse filters whose sums may leave int32 on inputs less zero point in these limits."""
        count = len(self.weight)
        w = self.weight.reshape(count, -1).astype(np.int64)
        if self.zero is not None:
            w -= self.zero[:, None]
        above, below = np.maximum(w, 0).sum(axis=1), np.minimum(w, 0).sum(axis=1)
        bias = 0 if self.bias is None else self.bias.astype(np.int64)
        most = above * highest + below * lowest + bias
        least = above * lowest + below * highest + bias
        wrong = np.flatnonzero((most > SUMS[1]) | (least < SUMS[0]))
        if wrong.size:
            m = int(wrong[0])
            raise InvalidValue(
                f"weight: got filter {m} with sums from {int(least[m])} to {int(most[m])}, bias "
                "included; allowed: sums that fit int32"
            )


@dataclass(frozen=True, eq=False)
class Scales:
    """How sums become bytes: y = saturate(round(sum * multiplier + zero)).

    The multiplier, x_scale * w_scale / y_scale in float32, may be one for each filter.
    """

    multiplier: np.ndarray  # (M,), float32
    zero: int
    dtype: str | None  # None: that of the input
    steps: np.ndarray  # (M,), float32: x_scale * w_scale, what a step of a sum is
    y: float  # the scale of outputs

    @classmethod
    def of(
        cls, filters: int, x_scale: Any, w_scale: Any, y_scale: Any, y_zero: Any, dtype: Any
    ) -> Scales:
        """Return them; raises InvalidType and InvalidValue."""
        for name, value in (("x_scale", x_scale), ("w_scale", w_scale)):
            if value is None:
                raise InvalidValue(
                    f"{name}: got None; allowed: a positive float32, as there is a y_scale"
                )
        x, w = _factors(filters, x_scale, w_scale)
        y = _scales("y_scale", y_scale, 1)
        with np.errstate(all="ignore"):
            multiplier = x * w / y
        if not np.isfinite(multiplier).all():
            raise InvalidValue(
                f"y_scale: got {y_scale!r}, with which x_scale * w_scale / y_scale leaves float32; "
                "allowed: a larger scale"
            )
        if dtype is not None:
            dtype = arguments.choice("y_dtype", _name(dtype), (None, *BYTES))
        limits = (-128, 255) if dtype is None else RANGES[dtype]
        zero = arguments.whole("y_zero", y_zero, limits[0], between(limits), limits[1])
        multiplier, steps = (
            np.array(np.broadcast_to(one, filters), order="C") for one in (multiplier, x * w)
        )
        return cls(multiplier, zero, dtype, steps, float(y[0]))


def refuse_outputs(filters: int, x_scale: Any, w_scale: Any, y_zero: Any, dtype: Any) -> None:
    """Refuse what says how sums become bytes where they stay sums, and scales that are none.

    Scales of input and weights mean something without one of the output, but are not needed.
    """
    _factors(filters, 1 if x_scale is None else x_scale, 1 if w_scale is None else w_scale)
    limits = (-128, 255)
    zero = arguments.whole("y_zero", y_zero, limits[0], between(limits), limits[1])
    for name, value, given in (("y_zero", zero, zero != 0), ("y_dtype", dtype, dtype is not None)):
        if given:
            raise InvalidValue(
                f"{name}: got {value!r} without y_scale; allowed: none, for sums are int32"
            )


def integers(argument: str, value: Any, allowed: tuple[str, ...]) -> np.ndarray:
    """Return ``value`` as an array of one of these dtypes; raises InvalidType otherwise."""
    names = " or ".join(allowed)
    view = arguments.array(argument, value, names)
    if view.dtype.name not in allowed or not view.dtype.isnative:
        raise InvalidType(f"{argument}: got dtype {view.dtype}; allowed: {names}")
    return view


def check_terms(shape: tuple[int, ...]) -> None:
    """Refuse filters, (M, C/groups, KH, KW), whose sums may leave int32."""
    terms = prod(shape[1:])
    if terms >= TOO_MANY_TERMS:
        raise InvalidValue(
            f"weight: got shape {shape}, {terms} products for every sum; allowed: fewer than "
            f"{TOO_MANY_TERMS}, whose sums cannot leave int32"
        )


def check_zero(argument: str, value: int, dtype: str) -> None:
    """Refuse a zero point that numbers of this type cannot hold."""
    least, most = RANGES[dtype]
    if not least <= value <= most:
        raise InvalidValue(
            f"{argument}: got {value}; allowed: {between((least, most))}, for {dtype}"
        )


def any_zero(argument: str, value: Any) -> int:
    """Return a zero point of bytes of either type; raises InvalidType and InvalidValue."""
    return arguments.whole(argument, value, -128, between((-128, 255)), 255)


def between(limits: tuple[int, int]) -> str:
    """Say which ints are allowed."""
    return f"an int in {limits[0]}..{limits[1]}"


def _name(dtype: Any) -> Any:
    try:
        return np.dtype(dtype).name
    except TypeError:
        return dtype


def _zeros(
    argument: str, value: Any, filters: int, limits: tuple[int, int], dtype: np.dtype
) -> np.ndarray:
    """Zero points of the filters: an int, or an array with one for each."""
    if np.ndim(value) == 0:
        one = arguments.whole(
            argument, np.asarray(value).item() if isinstance(value, np.ndarray) else value,
            limits[0], between(limits), limits[1],
        )  # fmt: skip
        return np.full(filters, one, np.int32)
    array = integers(argument, value, ("uint8", "int8", "int32", "int64"))
    if array.shape not in ((1,), (filters,)):
        raise InvalidValue(
            f"{argument}: got shape {array.shape}; allowed: a number, or ({filters},), one for "
            "each filter"
        )
    if array.min() < limits[0] or array.max() > limits[1]:
        raise InvalidValue(
            f"{argument}: got values from {array.min()} to {array.max()}; allowed: "
            f"{limits[0]}..{limits[1]}, as weight is {dtype}"
        )
    return np.array(np.broadcast_to(array, filters), np.int32)


def scale(argument: str, value: Any) -> float:
    """Return a scale that is a number; raises InvalidType and InvalidValue."""
    return float(_scales(argument, value, 1)[0])


def _factors(filters: int, x_scale: Any, w_scale: Any) -> tuple[np.ndarray, np.ndarray]:
    """The scales of input and weights."""
    return _scales("x_scale", x_scale, 1), _scales("w_scale", w_scale, filters)


def _scales(argument: str, value: Any, filters: int) -> np.ndarray:
    """Scales in float32: a positive number, or an array with one for each filter."""
    each = f", or an array of shape ({filters},)" if filters > 1 else ""
    allowed = f"a positive float32{each}"
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise TypeError("not real numbers")
        with np.errstate(all="ignore"):
            array = array.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidType(f"{argument}: got {value!r} ({error}); allowed: {allowed}") from None
    if array.shape not in ((), (1,), (filters,)):
        raise InvalidValue(f"{argument}: got shape {array.shape}; allowed: {allowed}")
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InvalidValue(f"{argument}: got {value!r}; allowed: {allowed}")
    return array.reshape(-1)
