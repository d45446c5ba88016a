"""Texts that take a while to make, kept in the cache folder under a digest of their sources."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from contextlib import suppress

from winogen.errors import CacheUnavailable
from winogen.toolchain import trust
from winogen.toolchain.cache import cache_root, write_whole


def kept(key: str, make: Callable[[], str]) -> str:
    """Return the text kept under ``key``; if there is none, keep and return what ``make`` returns.

    ``key`` is a digest of all that the text depends on, fit for a file name. The first line of the
    file is a digest of the text, so that a damaged file is as good as none; what follows is
    compressed, since the cache has each text again beside its kernel. One that cannot be written
    costs making the text again.

    >>> kept("0", lambda: "a text")
    'a text'
    """
    try:
        path = cache_root() / "texts" / key
    except CacheUnavailable:
        return make()
    try:
        digest, packed = trust.read(path).split(b"\n", 1)
        text = zlib.decompress(packed)
        if digest.decode() == hashlib.sha256(text).hexdigest():
            with suppress(OSError):
                path.touch()  # the time of last use, by which old texts are told
            return text.decode()
    except (OSError, ValueError, zlib.error):
        pass
    made = make()
    text = made.encode()
    with suppress(OSError):
        write_whole(path, hashlib.sha256(text).hexdigest().encode() + b"\n" + zlib.compress(text))
    return made
