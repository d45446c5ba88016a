"""The memory that kernels work in: aligned, counted, and asked for before anything is computed."""

from __future__ import annotations

import threading

import numpy as np

from winogen.errors import WinogenError

ALIGNMENT = 64  # bytes: a cache line, and the widest vector there is


class OutOfMemory(WinogenError, MemoryError):
    """The system refused memory that a convolution needs; the message says how much, for what."""


def empty(shape: tuple[int, ...], dtype: np.dtype, what: str) -> np.ndarray:
    """Return a new uninitialised array; raises OutOfMemory that names ``what`` and the bytes."""
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:  # numpy: ValueError when a size passes the intp
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        raise OutOfMemory(f"{what}: could not allocate {size} bytes for shape {shape}") from error


def aligned(size: int, what: str) -> np.ndarray:
    """Return ``size`` uninitialised bytes that begin at a multiple of ALIGNMENT.

    Raises OutOfMemory that names ``what`` and the bytes.
    """
    raw = empty((size + ALIGNMENT,), np.dtype(np.uint8), what)
    skip = -raw.ctypes.data % ALIGNMENT
    return raw[skip : skip + size]


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

    def __init__(self):
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
