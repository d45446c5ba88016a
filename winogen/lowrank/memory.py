"""What was found out about a model, kept in the cache folder: an interrupted run goes on from it.

Trials and fits take seconds each, and a second budget for the same model wants the same ones.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from winogen.onnx.samples import Sample
from winogen.toolchain import blobs

_FOLDER = "arrays"
Arrays = dict[str, np.ndarray]


class ArrayMemory:
    """Arrays by what they are of: of one model, and of what it was fitted to.

    ``facts``: all that the arrays depend on besides, but for winogen, numpy and onnxruntime. Their
    texts are the same in every process.
    """

    def __init__(self, proto: Any, *facts: object):
        data = proto.SerializeToString(deterministic=True)
        self._facts = hashlib.sha256(data).hexdigest(), *facts

    def kept(self, what: Sequence[object], make: Callable[[], Arrays]) -> Arrays:
        """Return arrays by name, as ``make`` returns them or returned them in an earlier process.

        ``what``: what they are, in texts that are the same in every process.
        """
        found = self.find(what)
        if found is None:
            found = make()
            self.keep(what, found)
        return found

    def find(self, what: Sequence[object]) -> Arrays | None:
        """Return what was kept; None where nothing was that is whole."""
        data = blobs.read(_FOLDER, self._key(what))
        if data is None:
            return None
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (ValueError, OSError, zipfile.BadZipFile):
            return None

    def keep(self, what: Sequence[object], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays, if they can be."""
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **arrays)
        blobs.write(_FOLDER, self._key(what), file.getvalue())

    def number(self, what: Sequence[object], make: Callable[[], float]) -> float:
        """Do the same for one number."""
        return float(self.kept(what, lambda: {"number": np.array(make())})["number"])

    def _key(self, what: Sequence[object]) -> str:
        return hashlib.sha256(repr((_code(), self._facts, what)).encode()).hexdigest()


def digest(samples: Sequence[Sample]) -> str:
    """Return a digest of samples: the names, types, shapes and numbers of their arrays."""
    found = hashlib.sha256()
    for sample in samples:
        for name, array in sorted(sample.items()):
            found.update(repr((name, array.dtype.str, array.shape)).encode())
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


@cache
def _code() -> str:
    """A digest of all code that results depend on."""
    import onnxruntime

    from winogen import resources

    package = resources.package()
    folders = [package / name for name in ("lowrank", "onnx")]
    found = hashlib.sha256(repr((np.__version__, onnxruntime.__version__)).encode())
    for path in (path for folder in folders for path in sorted(folder.glob("*.py"))):
        found.update(path.read_bytes())
    return found.hexdigest()
