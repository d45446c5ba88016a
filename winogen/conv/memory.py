"""The memory that kernels work in: aligned, counted, and asked for before anything is computed."""

from __future__ import annotations

import ctypes
import threading
import weakref
from contextlib import suppress

import numpy as np

from winogen.errors import OutOfMemory
from winogen.records.machine import LINE

# Arrays of at least this many bytes reuse the memory of earlier, deleted ones: fresh pages can cost
# more than the convolution that fills them.
_LARGE = 1 << 20
_KEPT = 32 << 20  # the most memory that waits for reuse


def empty(shape: tuple[int, ...], dtype: np.dtype, what: str) -> np.ndarray:
    """Return a new uninitialised array that begins at a cache line.

    Rows that begin at a cache line are written in half as many pieces. Raises OutOfMemory that
    names ``what`` and the bytes.
    """
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    try:
        raw = np.empty(size + LINE, np.uint8) if size < _LARGE else _spare.lend(size + LINE)
    except (MemoryError, ValueError) as error:  # numpy: ValueError when a size passes the intp
        raise OutOfMemory(f"{what}: could not allocate {size} bytes for shape {shape}") from error
    skip = -raw.ctypes.data % LINE
    return raw[skip : skip + size].view(np.ndarray).view(dtype).reshape(shape)


class _Lent(np.ndarray):
    """Bytes that go back to where they came from when no array looks at them any more.

    A class apart, because numpy lets views of a plain array refer to the memory behind it.
    """


class _Spare:
    """Memory of large arrays that are gone, the oldest first.

    Arrays may end in any thread and at any moment, so there are no locks: every access of
    `_buffers` is one atomic step.
    """

    def __init__(self) -> None:
        self._buffers: dict[int, np.ndarray] = {}

    def lend(self, size: int) -> np.ndarray:
        """Return ``size`` bytes or a few more; raises what numpy raises when there is no memory."""
        for key, buffer in list(self._buffers.items()):
            if size <= buffer.size <= size + size // 4 and self._buffers.pop(key, None) is not None:
                break
        else:
            try:
                buffer = np.empty(size, np.uint8)
            except MemoryError:
                self.release()
                buffer = np.empty(size, np.uint8)
        lent = buffer.view(_Lent)
        weakref.finalize(lent, self._take_back, buffer).atexit = False  # type: ignore[misc]
        return lent

    def release(self) -> None:
        """Give all back to the system."""
        self._buffers.clear()

    def _take_back(self, buffer: np.ndarray) -> None:
        if buffer.size > _KEPT:  # it would only push out all the others
            return
        self._buffers[id(buffer)] = buffer
        buffers = list(self._buffers.items())
        kept = sum(buffer.size for _, buffer in buffers)
        for key, buffer in buffers:
            if kept <= _KEPT:
                break
            self._buffers.pop(key, None)
            kept -= buffer.size


_spare = _Spare()


def release() -> None:
    """Give memory that waits for later calls of this thread back to the system."""
    _workspace.buffer = np.empty(0, np.uint8)  # a large one becomes spare
    _spare.release()
    with suppress(OSError, AttributeError):  # glibc keeps what was freed between what was not
        ctypes.CDLL(None).malloc_trim(0)


def aligned(size: int, what: str) -> np.ndarray:
    """Return ``size`` uninitialised bytes, aligned as `empty` does; raises OutOfMemory likewise."""
    return empty((size,), np.dtype(np.uint8), what)


def contiguous(array: np.ndarray, what: str) -> np.ndarray:
    """Return ``array`` in C order and aligned to its items, copied only if it is not so already.

    Raises OutOfMemory that names ``what`` and the bytes.
    """
    flags = array.flags
    if flags.c_contiguous and flags.aligned:
        return array
    copy = empty(array.shape, array.dtype, f"contiguous copy of {what}")
    copy[...] = array
    return copy


class _Workspace(threading.local):
    """One buffer per thread for all convolutions, as large as the largest of them needed."""

    def __init__(self) -> None:
        self.buffer = np.empty(0, np.uint8)


_workspace = _Workspace()


def workspace(size: int) -> np.ndarray:
    """Return this thread's workspace, aligned and of at least ``size`` bytes.

    Its content is arbitrary. Raises OutOfMemory.
    """
    buffer = _workspace.buffer
    if buffer.size < size:
        _workspace.buffer = np.empty(0, np.uint8)  # give the smaller one back first
        buffer = _workspace.buffer = aligned(size, "workspace")
    return buffer
