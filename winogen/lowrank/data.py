"""What a model is for, from files: one of all inputs, or a folder with one of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.onnx.samples import Sample, read_samples


def read_data(proto: Any, data: Any) -> list[Sample]:
    """Return samples as `winogen.onnx.samples.read_samples` does; also those of a folder.

    A folder has a .npy for each input, called like it, whose first axis counts samples. Raises
    InvalidType and InvalidValue.
    """
    if not isinstance(data, (str, Path)):
        return list(read_samples(proto, data))
    path = Path(data)
    if not path.exists():
        raise InvalidValue(
            f"samples: got {path}, which is not there; allowed: a .npy, a .npz or a folder of .npy"
        )
    return list(read_samples(proto, _of_folder(path) if path.is_dir() else path))


def _of_folder(folder: Path) -> Iterator[Sample]:
    arrays = {}
    for file in sorted(folder.glob("*.npy")):
        try:
            arrays[file.stem] = np.load(file, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as problem:
            raise InvalidValue(f"samples: got {file}, which is no .npy ({problem})") from None
    counts = {array.shape[0] if array.ndim else 0 for array in arrays.values()}
    if len(counts) != 1 or 0 in counts:
        raise InvalidValue(
            f"samples: got a folder with {', '.join(arrays) or 'no .npy'} of "
            f"{', '.join(map(str, sorted(counts))) or 'no'} samples; allowed: a .npy for each "
            "input, with the same number of samples, at least one"
        )
    (count,) = counts
    for i in range(count):
        yield {name: array[i : i + 1] for name, array in arrays.items()}
