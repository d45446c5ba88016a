"""Samples, the inputs that a model is for: read from files or anything iterable, and run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from winogen.errors import InvalidType, InvalidValue
from winogen.files import read_array
from winogen.onnx.pictures import Pictures, in_folder, samples_of

Sample = Mapping[str, np.ndarray]


def run(session: Any, wanted: Sequence[str] | None, sample: Sample, number: int) -> list[Any]:
    """Return some outputs for a sample, None for all; raises InvalidValue if it does not fit."""
    try:
        return list(session.run(wanted, dict(sample))) if wanted != [] else []
    except Exception as problem:  # onnxruntime's own kinds of errors
        raise InvalidValue(
            f"samples: got number {number}, which onnxruntime refuses ({problem}); allowed: "
            f"{', '.join(f'{v.name} {v.type} {v.shape}' for v in session.get_inputs())}"
        ) from problem


def read_samples(proto: Any, samples: Any, pictures: Pictures | None = None) -> Iterator[Sample]:
    """Return samples one after the other, as values of the model's inputs.

    ``samples``: mappings from input to array, or arrays for a model of one input, by any iterable;
    or a path. A .npy has samples along its first axis, each of which is given to the model as a
    batch of one; a .npz has such an array for each input by its name, and a folder a .npy. A folder
    may also have pictures, .png or .jpg, each of which is a sample by the rule ``pictures``.

    Raises InvalidType and InvalidValue, the latter also while they are read.
    """
    constant = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value.name for value in proto.graph.input if value.name not in constant]
    if isinstance(samples, (str, Path)):
        path = Path(samples)
        has_arrays = pictures is None and any(path.glob("*.npy"))
        files = [] if has_arrays else in_folder(path)
        if pictures is not None and not files:
            raise InvalidValue(
                f"data: got {path}, which is no folder of pictures; allowed: such a folder, or "
                "neither size nor mean nor std"
            )
        samples = samples_of(files, pictures, inputs) if files else _in_file(path, inputs)
    if isinstance(samples, (np.ndarray, Mapping)) or not isinstance(samples, Iterable):
        raise InvalidType(
            f"samples: got {type(samples).__name__}; allowed: an iterable of arrays or of mappings "
            "from input to array, or the path of a .npy, a .npz or a folder of .npy or of pictures"
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
        arrays = {name: _array(value, name, number) for name, value in sample.items()}
        for name, array in arrays.items():
            try:
                finite = np.isfinite(array).all()
            except TypeError:
                raise InvalidType(
                    f"samples: got number {number}, for which {name} is of {array.dtype}; allowed: "
                    "numbers"
                ) from None
            if not finite:
                raise InvalidValue(
                    f"samples: got number {number}, for which {name} is not finite; allowed: "
                    "finite numbers"
                )
        yield arrays


def _array(value: Any, name: str, number: int) -> np.ndarray:
    """A sample's value of an input; raises InvalidType for lists of several lengths."""
    with suppress(ValueError):
        return np.asarray(value)
    raise InvalidType(
        f"samples: got number {number}, for which {name} is no array; allowed: numbers"
    )


def _in_file(path: Path, inputs: Sequence[str]) -> Iterator[Sample]:
    """The samples in files of numpy's, which are read as they are wanted if they can be."""
    if path.is_dir():
        arrays = {
            file.stem: read_array("samples", file, mapped=True)
            for file in sorted(path.glob("*.npy"))
        }
        given = f"a folder with {', '.join(arrays) or 'no .npy and no picture'}"
    else:
        data = read_array("samples", path, mapped=True)
        if isinstance(data, np.ndarray):
            arrays = {inputs[0] if len(inputs) == 1 else "one array": data}
        else:
            arrays = {name: _of_archive(path, data, name) for name in data.files}
        given = f"{path} with {', '.join(arrays) or 'nothing'}"
    if sorted(arrays) != sorted(inputs):
        raise InvalidValue(
            f"samples: got {given}; allowed: {'one array, or ' * (len(inputs) == 1)}a .npz with "
            f"{', '.join(inputs)}, or a folder of such .npy"
        )
    counts = {array.shape[0] if array.ndim else 0 for array in arrays.values()}
    if len(counts) != 1 or 0 in counts:
        raise InvalidValue(
            f"samples: got arrays of {', '.join(map(str, sorted(counts)))} samples in {path}; "
            "allowed: the same number of them, at least one"
        )
    (count,) = counts
    return ({name: array[i : i + 1] for name, array in arrays.items()} for i in range(count))


def _of_archive(path: Path, data: Any, name: str) -> np.ndarray:
    try:
        array: np.ndarray = data[name]
    except Exception as problem:  # of many kinds: of zip files, and of numpy's reader
        raise InvalidValue(
            f"samples: got {path}, of which {name} cannot be read ({problem})"
        ) from problem
    return array
