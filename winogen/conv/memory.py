"""The memory that kernels work in: aligned, counted, and asked for before anything is computed."""

from __future__ import annotations

import threading

import numpy as np

from winogen.errors import WinogenError

ALIGNMENT = 64  # bytes: a cache line, and the widest vector there is


class OutOfMemory(WinogenError, MemoryError):
    """The system refused memory that a convolution needs; the message says how much, for what."""


def empty(shape: tuple[int, ...], dtype: np.dtype, what: str) -> np.ndarray:
    """Return a new uninitialised array that begins at a multiple of ALIGNMENT.

    Rows that begin at a cache line are written in half as many pieces. Raises OutOfMemory that names
    ``what`` and the bytes.
    """
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    try:
        raw = np.empty(size + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError) as error:  # numpy: ValueError when a size passes the intp
        raise OutOfMemory(f"{what}: could not allocate {size} bytes for shape {shape}") from error
    skip = -raw.ctypes.data % ALIGNMENT
    return raw[skip : skip + size].view(dtype).reshape(shape)


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
