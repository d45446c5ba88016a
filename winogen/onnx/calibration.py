"""Ranges of a float model's values, as onnxruntime computes them for samples.

Nothing is kept of the values themselves: two numbers for a maximum, a histogram for a percentile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from winogen.conv import arguments
from winogen.errors import InvalidType, InvalidValue
from winogen.extras import MissingPackage
from winogen.onnx.loading import new_session, require

METHODS = ("maximum", "percentile")
PERCENTILE = 99.99
_BINS = 1 << 14  # each 1/8192 of the largest magnitude, or less than twice that

Sample = Mapping[str, np.ndarray]


class Range(NamedTuple):
    """From the least to the largest number that is worth a code."""

    low: float
    high: float

    def widened(self, other: Range) -> Range:
        """Return what holds both."""
        return Range(min(self.low, other.low), max(self.high, other.high))


class Observer(Protocol):
    """Sees values in pieces and tells their range."""

    def add(self, values: np.ndarray) -> None:
        """Take note of finite values."""

    def range(self) -> Range:
        """Return the range of all that was seen."""


class Maximum:
    """From the least value to the largest.

    >>> seen = Maximum()
    >>> seen.add(np.array([1.0, -2.0]))
    >>> seen.range()
    Range(low=-2.0, high=1.0)
    """

    def __init__(self) -> None:
        self._range: Range | None = None

    def add(self, values: np.ndarray) -> None:
        """Take note of finite values."""
        if values.size:
            found = Range(float(values.min()), float(values.max()))
            self._range = found if self._range is None else self._range.widened(found)

    def range(self) -> Range:
        """Return the range of all that was seen; of nothing, it is zero."""
        return self._range or Range(0.0, 0.0)


class Percentile:
    """Without the largest and the least values: at each end, all but ``percentile`` % are left out.

    A histogram whose bins join in pairs whenever a value lies beyond them, so that the memory is
    the same for any number of values, and so is the result for any order of them.

    >>> seen = Percentile(99.0)
    >>> seen.add(np.r_[np.linspace(0, 1, 1000), 50.0])
    >>> 0.98 < seen.range().high < 1
    True
    """

    def __init__(self, percentile: float):
        self._share = percentile / 100
        self._counts = np.zeros(_BINS, np.int64)
        self._span = 0.0  # bins divide -span to span; a power of two
        self._whole = Maximum()

    def add(self, values: np.ndarray) -> None:
        """Take note of finite values."""
        if not values.size:
            return
        self._whole.add(values)
        largest = float(np.abs(values).max())
        if largest > 0 and self._span == 0:
            # What was seen until now are zeros, which lie where they lay.
            self._span = float(2.0 ** (np.floor(np.log2(largest)) + 1))
        while largest >= self._span > 0:
            middle = self._counts.reshape(-1, 2).sum(1)
            self._counts[:] = 0
            self._counts[_BINS // 4 : 3 * _BINS // 4] = middle
            self._span *= 2
        scale = _BINS / 2 / self._span if self._span else 0.0
        places = np.floor(values.reshape(-1) * np.float64(scale)).astype(np.int64) + _BINS // 2
        self._counts += np.bincount(places, minlength=_BINS)

    def range(self) -> Range:
        """Return the range, to the width of a bin, which lies within that of all values."""
        whole = self._whole.range()
        total = int(self._counts.sum())
        if not total:
            return whole
        below = np.cumsum(self._counts)
        first = int(np.searchsorted(below, (1 - self._share) * total, side="right"))
        last = int(np.searchsorted(below, self._share * total, side="left"))
        width = 2 * self._span / _BINS
        low, high = (min(first, _BINS - 1) * width, (last + 1) * width)
        return Range(max(low - self._span, whole.low), min(high - self._span, whole.high))


def observer(method: str, percentile: float) -> Observer:
    """Return a new observer; raises InvalidValue."""
    if method not in METHODS:
        raise InvalidValue(f"method: got {method!r}; allowed: {', '.join(METHODS)}")
    percentile = arguments.positive("percentile", percentile, "a number above 50, up to 100")
    if not 50 < percentile <= 100:
        raise InvalidValue(f"percentile: got {percentile:g}; allowed: a number above 50, up to 100")
    return Maximum() if method == "maximum" else Percentile(percentile)


def ranges(
    proto: Any,
    names: Sequence[str],
    samples: Iterable[Sample],
    method: str = "maximum",
    percentile: float = PERCENTILE,
) -> dict[str, Range]:
    """Return the range of each of the values ``names`` of a float32 model, over all samples.

    Raises InvalidValue for samples that do not fit, and for values that are not finite.
    """
    observers = {name: observer(method, percentile) for name in names}
    onnx = require("onnx")
    watched = onnx.ModelProto()
    watched.CopyFrom(proto)
    given = {value.name for value in proto.graph.input}
    there = given | {value.name for value in proto.graph.output}
    make, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    watched.graph.output.extend(make(name, kind, None) for name in names if name not in there)
    session = session_of(watched)
    wanted = [name for name in names if name not in given]
    number = -1
    for number, sample in enumerate(samples):
        values = dict(zip(wanted, run(session, wanted, sample, number)))
        for name, seen in observers.items():
            value = values[name] if name in values else np.asarray(sample[name])
            if not np.isfinite(value).all():
                raise InvalidValue(
                    f"samples: got number {number}, for which {name} is not finite; allowed: "
                    "samples that the float model computes without overflow"
                )
            seen.add(value)
    if number < 0:
        raise InvalidValue("samples: got none; allowed: at least one")
    return {name: seen.range() for name, seen in observers.items()}


def session_of(proto: Any, optimized: bool = True) -> Any:
    """Return a session of onnxruntime on the CPU; raises InvalidValue if it refuses the model."""
    try:
        return new_session(proto, optimized=optimized)
    except MissingPackage:
        raise
    except Exception as problem:  # onnxruntime's own kinds of errors
        raise InvalidValue(f"model: onnxruntime does not run it ({problem})") from problem


def run(session: Any, wanted: Sequence[str] | None, sample: Sample, number: int) -> list[Any]:
    """Return some outputs for a sample, None for all; raises InvalidValue if it does not fit."""
    try:
        return list(session.run(wanted, dict(sample))) if wanted != [] else []
    except Exception as problem:  # onnxruntime's own kinds of errors
        raise InvalidValue(
            f"samples: got number {number}, which onnxruntime refuses ({problem}); allowed: "
            f"{', '.join(f'{v.name} {v.type} {v.shape}' for v in session.get_inputs())}"
        ) from problem


def read_samples(proto: Any, samples: Any) -> Iterator[Sample]:
    """Return samples one after the other, as values of the model's inputs.

    ``samples``: mappings from input to array, or arrays for a model of one input, by any iterable;
    or a file. A .npy has samples along its first axis, each of which is given to the model as a
    batch of one; a .npz has such an array for each input by its name.

    Raises InvalidType and InvalidValue, the latter also while they are read.
    """
    constant = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value.name for value in proto.graph.input if value.name not in constant]
    if isinstance(samples, (str, Path)):
        samples = _in_file(Path(samples), inputs)
    if isinstance(samples, (np.ndarray, Mapping)) or not isinstance(samples, Iterable):
        raise InvalidType(
            f"samples: got {type(samples).__name__}; allowed: an iterable of arrays or of mappings "
            "from input to array, or the path of a .npy or .npz"
        )
    return _checked(samples, inputs)


def _checked(samples: Iterable[Any], inputs: Sequence[str]) -> Iterator[Sample]:
    for number, sample in enumerate(samples):
        if not isinstance(sample, Mapping):
            if len(inputs) != 1:
                raise InvalidValue(
                    f"samples: got an array; allowed: mappings, of {', '.join(inputs)}"
                )
            sample = {inputs[0]: sample}
        if sorted(sample) != sorted(inputs):
            raise InvalidValue(
                f"samples: got number {number} with {', '.join(sample) or 'nothing'}; allowed: "
                f"{', '.join(inputs)}"
            )
        yield {name: np.asarray(value) for name, value in sample.items()}


def _in_file(path: Path, inputs: Sequence[str]) -> Iterator[Sample]:
    """The samples in a file of numpy's, which is read as they are wanted if it can be."""
    try:
        data = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as problem:
        raise InvalidValue(f"samples: got {path}, which is no .npy or .npz ({problem})") from None
    arrays: dict[str, np.ndarray]
    if isinstance(data, np.ndarray):
        arrays = {inputs[0] if len(inputs) == 1 else "one array": data}
    else:
        arrays = {name: data[name] for name in data.files}
    if sorted(arrays) != sorted(inputs):
        raise InvalidValue(
            f"samples: got {path} with {', '.join(arrays) or 'nothing'}; allowed: "
            f"{', '.join(inputs)}"
        )
    counts = {array.shape[0] if array.ndim else 0 for array in arrays.values()}
    if len(counts) != 1 or 0 in counts:
        raise InvalidValue(
            f"samples: got arrays of {', '.join(map(str, sorted(counts)))} samples in {path}; "
            "allowed: the same number of them, at least one"
        )
    (count,) = counts
    return ({name: array[i : i + 1] for name, array in arrays.items()} for i in range(count))
