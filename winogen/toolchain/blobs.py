"""Bytes that take a while to make, kept in a folder of the cache under a digest of their sources.

The first line of each file is a digest of the rest, so that a damaged file is as good as none.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

from winogen.errors import CacheUnavailable
from winogen.toolchain import trust
from winogen.toolchain.cache import cache_root, write_whole


def read(folder: str, key: str) -> bytes | None:
    """Return the bytes kept under ``key``; None where there are none that are whole.

    ``folder``: one of `winogen.toolchain.trust.PARTS`.
    """
    try:
        path = cache_root() / folder / key
        digest, data = trust.read(path).split(b"\n", 1)
        if digest.decode() != hashlib.sha256(data).hexdigest():
            return None
        with suppress(OSError):
            path.touch()  # the time of last use, by which old files are told
        return data
    except (CacheUnavailable, OSError, ValueError):
        return None


def write(folder: str, key: str, data: bytes) -> None:
    """Keep bytes in place of earlier ones; where that cannot be, they will have to be made again.

    ``key``: a digest of all that the bytes depend on, fit for a file name.
    """
    whole = hashlib.sha256(data).hexdigest().encode() + b"\n" + data
    with suppress(CacheUnavailable, OSError):
        write_whole(cache_root() / folder / key, whole)
