"""Arrays that may be slices of the channels of larger ones, and what is allowed of them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from winogen.conv import arguments, memory
from winogen.errors import InvalidType, InvalidValue

SLICES = "a C-contiguous array, or a slice of the channels of one"


def channels_around(array: np.ndarray, layout: str) -> int:
    """Return the number of channels of the array whose slice ``array`` is; 0 if it is no slice.

    ``array`` has an axis for each letter of the layout, or none for the batch. A C-contiguous array
    is a slice of itself.

    >>> whole = np.zeros((2, 8, 5, 5), np.float32)
    >>> channels_around(whole[:, 2:5], "NCHW"), channels_around(whole[:, ::2], "NCHW")
    (8, 0)
    """
    flags, planar = array.flags, layout[1] == "C"
    if not flags.aligned:
        return 0
    if flags.c_contiguous:
        return array.shape[1 - len(layout) if planar else -1]
    shape, strides = array.shape, array.strides
    if array.ndim < len(layout):
        shape, strides = (1, *shape), (0, *strides)
    # Of axes inside of the channels, and of axes around them, where numbers are counted for every
    # channel: items, from one to the next in the array, and in numbers if the array were dense.
    first = 1 if planar else len(layout) - 1
    channels = shape[first]
    inner = [(n, strides[i], prod(shape[i + 1 :])) for i, n in enumerate(shape) if i >= first]
    around = [
        (n, strides[i], prod(shape[i + 1 :]) // max(1, channels))
        for i, n in enumerate(shape)
        if i < first
    ]
    size = array.itemsize
    if any(count > 1 and step != unit * size for count, step, unit in inner):
        return 0
    totals = {step / (unit * size) for count, step, unit in around if count > 1} or {
        float(channels)
    }
    total = totals.pop()
    return int(total) if not totals and total >= channels and total % 1 == 0 else 0


def readable(argument: str, array: np.ndarray, layout: str) -> tuple[np.ndarray, int]:
    """Return the array, copied if it is no slice of channels, and the channels around it.

    A picture, (H, W), gets an axis for its one channel.
    """
    if array.ndim == len(layout) - 2:
        array = array[None] if layout[1] == "C" else array[..., None]
    total = channels_around(array, layout)
    if total:
        return array, total
    array = memory.contiguous(array, argument)
    return array, channels_around(array, layout)


def added(argument: str, value: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return what is added as an array; raises InvalidType and InvalidValue."""
    array = arguments.layer_array(argument, value)
    arguments.same_dtype(argument, array, dtype, "input")
    if array.shape != shape:
        raise InvalidValue(f"{argument}: got shape {array.shape}; allowed: {shape}, the output's")
    return array


def writeable(
    out: Any,
    shape: tuple[int, ...],
    dtype: np.dtype,
    layout: str,
    others: dict[str, Any],
    of: str = "input",
) -> tuple[np.ndarray, int]:
    """Return ``out`` as a plain array and the channels around it. ``of``: what has its dtype.

    Raises InvalidType and InvalidValue unless writing it leaves all other arguments alone.
    """
    out = plain_output(out, dtype, shape, of)
    total = channels_around(out, layout)
    flags = out.flags
    wrong = [name for name in ("aligned", "writeable") if not flags[name.upper()]]
    if not total or wrong:
        what = f"not {' and not '.join(wrong)}" if wrong else f"neither, strides {out.strides}"
        raise InvalidValue(
            f"out: got an array that is {what}; allowed: {SLICES}, aligned and writeable"
        )
    for name, other in others.items():
        if other is not None and _overlap(out, other, layout):
            raise InvalidValue(
                f"out: got an array that overlaps {name}; allowed: memory of its own"
            )
    return out, total


def plain_output(out: Any, dtype: np.dtype, shape: tuple[int, ...], of: str) -> np.ndarray:
    """Return ``out`` as a plain array of this dtype, which ``of`` has, and shape.

    Raises InvalidType and InvalidValue.
    """
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise InvalidType(f"out: got {type(out).__name__}; allowed: None or a numpy array")
    out = np.asarray(out)  # a subclass may say of itself what it is not
    if out.dtype != dtype:
        spelling, allowed = map(_spelled, (out.dtype, dtype))
        raise InvalidType(f"out: got dtype {spelling}; allowed: {allowed}, as {of} has")
    if out.shape != shape:
        raise InvalidValue(f"out: got shape {out.shape}; allowed: {shape}")
    return out


def _spelled(dtype: np.dtype) -> str:
    """A dtype with its byte order; by its name what numpy has no letters for: bfloat16."""
    return dtype.str if dtype.isbuiltin != 2 else dtype.name


def _overlap(one: np.ndarray, other: np.ndarray, layout: str) -> bool:
    if not np.may_share_memory(one, other) or _apart(one, other, layout):
        return False
    return share_memory(one, other)


def share_memory(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have a number in common, or may have, where that is hard to tell."""
    if not np.may_share_memory(one, other):
        return False
    try:  # it may still fit between the rows of a strided view
        return np.shares_memory(one, other, max_work=10_000)  # type: ignore[arg-type]
    except getattr(np, "exceptions", np).TooHardError:  # numpy < 1.25 has it at the top
        return True


def _apart(one: np.ndarray, other: np.ndarray, layout: str) -> bool:
    """Whether two slices of the channels of one array have no channel in common."""
    rank = len(layout)
    if one.ndim != rank or other.ndim != rank or one.itemsize != other.itemsize:
        return False
    axis = 1 if layout[1] == "C" else rank - 1
    place = one.strides[:axis] + one.strides[axis + 1 :]
    if place != other.strides[:axis] + other.strides[axis + 1 :]:
        return False
    total = channels_around(one, layout)
    if not total or total != channels_around(other, layout):
        return False
    step = one.strides[axis] if one.shape[axis] > 1 else other.strides[axis]
    if axis == rank - 1:
        step = one.itemsize
    elif one.shape[1] == other.shape[1] == 1:
        step = place[0] // total
    between = (other.ctypes.data - one.ctypes.data) % (total * step)
    one_bytes, other_bytes = (array.shape[axis] * step for array in (one, other))
    return bool(one_bytes <= between <= total * step - other_bytes)
