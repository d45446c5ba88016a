"""Reading the arguments of `conv2d`: every wrong type or value is named before any work is done.

Each function takes the argument's name and value and returns the one form that the rest of the
package uses. Messages read ``argument: got value; allowed: what``.
"""

from __future__ import annotations

import math
import numbers
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from winogen.conv import flytes
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.records import (
    ACTIVATIONS,
    COMPUTED_TYPES,
    NUMBERS,
    TARGETS,
    Epilogue,
    Target,
)
from winogen.records.target import LEVELS, MICROCONTROLLERS, spelled
from winogen.typing import Layout, Layout1d, Layout2d, Layout3d

# By rank; channels first, then channels last.
LAYOUTS: dict[int, tuple[Layout, Layout]] = {
    rank: get_args(layouts) for rank, layouts in enumerate((Layout1d, Layout2d, Layout3d), 1)
}
DTYPES = COMPUTED_TYPES
DTYPE_NAMES = {np.dtype(name): name for name in DTYPES}  # only of native byte order

# A size beyond this is a mistake, and below it no index computed in C leaves an int64.
LARGEST = 2**31 - 1
MOST_THREADS = 1024

_NOTHING = Epilogue()
_ACTIVATIONS = ", ".join(
    ["None", *(text for one in ACTIVATIONS.values() for text in one.spellings)]
)
_ARRAY_PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__", "__dlpack__")


def named_shapes(
    shapes: Mapping[str, Sequence[int]], inputs: Sequence[str]
) -> dict[str, Sequence[int]]:
    """Return shapes by the names of a model's inputs; "" stands for the only one.

    Raises InvalidValue for a name that is none, and for "" where there are several.

    >>> named_shapes({"": (1, 3, 8, 8)}, ["x"])
    {'x': (1, 3, 8, 8)}
    """
    named = {}
    for name, shape in shapes.items():
        if name not in inputs and (name or len(inputs) != 1):
            raise InvalidValue(
                f"input_shapes: got {name!r}; allowed: inputs of the model, {', '.join(inputs)}"
            )
        named[name or inputs[0]] = shape
    return named


def input_shape(value: Any) -> tuple[int, ...]:
    """Return the shape of an input as a tuple of ints; an array in its place is an InvalidType."""
    if not isinstance(value, (tuple, list)):
        allowed = "a tuple of ints"
        if isinstance(getattr(value, "shape", None), tuple):
            allowed = "a shape, as x.shape"
        raise InvalidType(f"input_shape: got {_short(value)}; allowed: {allowed}")
    allowed = "a tuple of non-negative ints"
    return tuple(whole("input_shape", size, 0, allowed) for size in value)


def choice(argument: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return ``value`` when it is one of ``allowed``; raises InvalidValue (InvalidType: no str)."""
    if value is not None and not isinstance(value, str):
        raise InvalidType(f"{argument}: got {_short(value)}; allowed: {_names(allowed)}")
    if value not in allowed:
        raise InvalidValue(f"{argument}: got {value!r}; allowed: {_names(allowed)}")
    return value


_ISAS = (*TARGETS, *LEVELS, *MICROCONTROLLERS)


def target(isa: str) -> Target:
    """Return an instruction set of `TARGETS` with its extensions, as "avx512" or "avx512+vnni".

    A microcontroller, as "cortex-m4", is "generic" with what its compiler is told.
    """
    if isa in MICROCONTROLLERS:
        return replace(TARGETS["generic"], core=isa)
    name, extensions = spelled(isa)
    # Named whole where the part before a sign is no target: "cortex-m4" is none, not "cortex".
    return TARGETS[name if name in TARGETS else choice("isa", isa, _ISAS)].adjusted(extensions)


def activation(value: Any) -> Epilogue:
    """Return the epilogue that ``activation=`` asks for: None, a name, or (name, parameters…).

    The slopes of "prelu" are not in it: see `slopes`.
    """
    if value is None:
        return _NOTHING
    name, *parameters = value if isinstance(value, (tuple, list)) and value else (value,)
    if name is not None and not isinstance(name, str):
        raise InvalidType(f"activation: got {_short(value)}; allowed: {_ACTIVATIONS}")
    if name is None and not parameters:
        return Epilogue()
    for other in ACTIVATIONS.values():
        if all(isinstance(p, str) for p in parameters) and (name, *parameters) == other.spelling:
            return Epilogue(other.name)
    entry = ACTIVATIONS.get(name or "")
    if entry is not None and entry.defaults and not parameters:
        return Epilogue(name, entry.defaults)
    if entry is None or entry.spelling or len(parameters) != len(entry.parameters):
        raise InvalidValue(f"activation: got {_short(value)}; allowed: {_ACTIVATIONS}")
    if entry.per_filter:
        return Epilogue(name)
    numbers = tuple(_number("activation", number, _ACTIVATIONS) for number in parameters)
    if not entry.allows(*numbers):
        raise InvalidValue(
            f"activation: got {_short(value)}; allowed: {_ACTIVATIONS}, with {entry.check}"
        )
    return Epilogue(name, numbers)


def slopes(
    value: Any, filters: int, dtype: np.dtype, each: str = "filter of weight"
) -> np.ndarray | None:
    """Return the slopes of ``activation=("prelu", slopes)``, one for each filter; None of others.

    A number, or an array of one, is meant for all filters. ``each``: what has a slope, for errors.
    """
    if not isinstance(value, (tuple, list)) or value[:1] not in (("prelu",), ["prelu"]):
        return None
    allowed = f"a number or an array of shape ({filters},), one slope for each {each}"
    try:
        array = np.asarray(value[1], dtype)
    except Exception as error:
        raise InvalidType(
            f"activation: got slopes {_short(value[1])} ({error}); allowed: {allowed}"
        ) from None
    if array.shape not in ((), (1,), (filters,)):
        raise InvalidValue(f"activation: got slopes of shape {array.shape}; allowed: {allowed}")
    if not np.isfinite(array).all():
        raise InvalidValue(f"activation: got slopes {_short(array)}; allowed: finite ones")
    return np.array(np.broadcast_to(array, (filters,)), order="C")


def _number(argument: str, value: Any, allowed: str) -> float:
    number = _real(argument, value, allowed)
    if math.isnan(number):
        raise InvalidValue(f"{argument}: got {value!r}; allowed: {allowed}, with finite numbers")
    return number


def _real(argument: str, value: Any, allowed: str) -> float:
    """Return a real number as a float, one beyond all floats as infinity."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise InvalidType(f"{argument}: got {_short(value)}; allowed: {allowed}")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def whole(argument: str, value: Any, least: int, allowed: str, most: int = LARGEST) -> int:
    """Return ``value`` as an int in ``least..most``.

    Floats (NaN and 2.0 too) and bools are an InvalidType, numbers out of range an InvalidValue.
    """
    if isinstance(value, (bool, np.bool_)):
        raise InvalidType(f"{argument}: got {value!r}; allowed: {allowed}")
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidType(f"{argument}: got {_short(value)}; allowed: {allowed}") from None
    if not least <= number <= most:
        said = number <= most or str(most) in allowed
        limit = "" if said else f" of at most {most}"
        raise InvalidValue(f"{argument}: got {number}; allowed: {allowed}{limit}")
    return number


def positive(argument: str, value: Any, allowed: str) -> float:
    """Return ``value`` as a finite float above 0; other numbers are an InvalidValue."""
    number = _real(argument, value, allowed)
    if not 0 < number < math.inf:
        raise InvalidValue(f"{argument}: got {_short(value)}; allowed: {allowed}")
    return number


# By rank: what several numbers are called, in errors.
_SEVERAL = ("", "a tuple (width,)", "a pair (height, width)", "a triple (depth, height, width)")
_SIDES = (
    "",
    "((left, right),)",
    "((top, bottom), (left, right))",
    "((front, back), (top, bottom), (left, right))",
)


def several(rank: int) -> str:
    """Return what a number for each axis is called, in errors.

    >>> several(2)
    'a pair (height, width)'
    """
    return _SEVERAL[rank]


def per_axis(argument: str, value: Any, least: int, rank: int) -> tuple[int, ...]:
    """Return a number for each axis from an int for all, or from one or ``rank`` (as torch)."""
    kind = "non-negative" if least == 0 else "positive"
    allowed = f"a {kind} int or {several(rank)} of them"
    if not isinstance(value, (tuple, list)):
        return (whole(argument, value, least, allowed),) * rank
    if len(value) not in (1, rank):
        raise InvalidValue(f"{argument}: got {_short(value)}; allowed: {allowed}")
    numbers = [whole(argument, item, least, allowed) for item in value]
    return tuple(numbers * rank)[:rank]


def padding(
    value: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return the padding before and after each axis of ``kernel``.

    ``"same"`` keeps the size and puts what is odd behind the axis, as torch does; it needs stride
    1. ``"valid"`` is 0, ``"causal"`` all before the only axis. Raises InvalidType or InvalidValue.
    """
    rank, sums = len(kernel), [d * (k - 1) for k, d in zip(kernel, dilation)]
    ways = {"same": [(n // 2, n - n // 2) for n in sums], "valid": [(0, 0)] * rank}
    ways |= {"causal": [(n, 0) for n in sums]} if rank == 1 else {}
    names = ", ".join(f'"{name}"' for name in ways)
    allowed = f"a non-negative int, {several(rank)}, {_SIDES[rank]}, {names}"
    if isinstance(value, str):
        if value not in ways:
            raise InvalidValue(f"padding: got {value!r}; allowed: {allowed}")
        if value == "same" and max(stride) > 1:
            raise InvalidValue(f'padding: got "same" with stride {stride}; allowed: stride 1')
        return tuple(ways[value])
    if not isinstance(value, (tuple, list)):
        number = whole("padding", value, 0, allowed)
        return ((number, number),) * rank
    nested = any(isinstance(item, (tuple, list)) for item in value)
    if len(value) != rank and (nested or len(value) != 1):
        raise InvalidValue(f"padding: got {_short(value)}; allowed: {allowed}")
    sides = []
    for item in value:
        ends = item if isinstance(item, (tuple, list)) else (item, item)
        if len(ends) != 2:
            raise InvalidValue(f"padding: got {_short(value)}; allowed: {allowed}")
        before, after = (whole("padding", end, 0, allowed) for end in ends)
        sides.append((before, after))
    return tuple(sides * rank)[:rank]


def threads(value: Any) -> int:
    """Return the number of threads: ``value``, or what this process may use when it is None.

    None stands for the CPUs that the process is allowed on, or OMP_NUM_THREADS (its first number)
    of them. More than there are CPUs must be asked for: they gain nothing.
    """
    if value is not None:
        return whole("threads", value, 1, "None or a positive int", MOST_THREADS)
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not every system tells
        count = os.cpu_count() or 1
    count = min(count, MOST_THREADS)
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if first.isascii() and first.isdecimal():
        digits = first.lstrip("0")
        if digits and len(digits) <= len(str(MOST_THREADS)):
            return min(int(digits), count)
    return count


def array(argument: str, value: Any, types: str = "float32 or float64") -> np.ndarray:
    """Return ``value`` as a numpy array over the same memory. ``types``: what errors allow.

    Arrays and whatever offers an array protocol (torch CPU tensors, memoryviews) are accepted.
    Lists and numbers have no dtype of their own and would silently become float64; masked arrays
    would lose their mask: both are an InvalidType.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidType(f"{argument}: got a masked array; allowed: an array without a mask")
    is_array = isinstance(value, memoryview) or any(hasattr(value, p) for p in _ARRAY_PROTOCOLS)
    if not is_array or isinstance(value, type):
        raise InvalidType(f"{argument}: got {_short(value)}; allowed: an array of {types}")
    try:
        return np.asarray(value)
    except Exception as error:  # tensors on another device, or that need a gradient, say so here
        raise InvalidType(
            f"{argument}: got {type(value).__name__} that numpy cannot view ({error}); "
            f"allowed: an array of {types}"
        ) from error


def dtype_name(dtype: np.dtype) -> str:
    """Return what arrays of a convolution are of, by our name; "" for what is not allowed.

    bfloat16 is known by its name: numpy has no such type, and the package `ml_dtypes`, which gives
    it one, need not be there.

    >>> dtype_name(np.dtype("float16")), dtype_name(np.dtype("int8"))
    ('float16', '')
    """
    name = _ARRAY_DTYPES.get(dtype, "")
    if not name and dtype.itemsize == 2 and dtype.name == "bfloat16":
        return dtype.name
    return name


_ARRAY_DTYPES = {np.dtype(name): name for name in (*COMPUTED_TYPES, "float16")}
_ARRAY_DTYPES |= {dtype: name for name, dtype in flytes.DTYPES.items()}


def dtype_named(name: str) -> np.dtype:
    """Return numpy's dtype of this name; raises Unsupported where it has none."""
    if name != "bfloat16":
        return flytes.DTYPES.get(name) or np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise Unsupported(
            "dtype: got bfloat16, which numpy has no type for; allowed: with the package ml_dtypes"
        ) from None
    return np.dtype(ml_dtypes.bfloat16)


def layer_array(argument: str, value: Any) -> np.ndarray:
    """Return ``value`` as an array that a convolution takes; raises InvalidType otherwise."""
    view = array(argument, value)
    if dtype_name(view.dtype):
        return view
    return float_array(argument, view, _LAYER_TYPES)


_LAYER_TYPES = "float32, float64, float16 or bfloat16, or flytes as winogen.narrow makes them"


def layer_dtype(x: np.dtype, weight: np.dtype) -> str:
    """Return what a layer's arrays are of; raises InvalidType unless they go with its weights.

    They are of the weights' type. Arrays of narrower numbers also go with weights of the type that
    these are computed in.
    """
    name, weight_name = dtype_name(x), dtype_name(weight)
    if weight_name not in (name, NUMBERS[name].computed if name else name):
        raise InvalidType(f"input: got dtype {x}; allowed: {weight}, as weight has")
    return name


def float_array(
    argument: str, value: Any, allowed: str = " or ".join(COMPUTED_TYPES)
) -> np.ndarray:
    """Return ``value`` as an array of native float32 or float64; raises InvalidType otherwise."""
    view = array(argument, value)
    if view.dtype in DTYPE_NAMES:
        return view
    if view.dtype.newbyteorder() in (_ARRAY_DTYPES if "float16" in allowed else DTYPE_NAMES):
        raise InvalidType(
            f"{argument}: got dtype {view.dtype.str!r}, whose bytes are swapped; allowed: native "
            f"byte order, such as {argument}.astype({view.dtype.name!r})"
        )
    raise InvalidType(f"{argument}: got dtype {view.dtype}; allowed: {allowed}")


def same_dtype(argument: str, value: np.ndarray, dtype: np.dtype, of: str) -> None:
    """Raise InvalidType unless ``value`` has the dtype of the argument ``of``."""
    if value.dtype != dtype:
        raise InvalidType(f"{argument}: got dtype {value.dtype}; allowed: {dtype}, as {of} has")


def _names(allowed: tuple) -> str:
    return ", ".join("None" if item is None else f'"{item}"' for item in allowed)


def _short(value: Any) -> str:
    """The value for a message, cut where a whole array would fill the screen."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and len(shape) > 1:
        return f"an array of shape {tuple(shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__} {text[:50]}..."
