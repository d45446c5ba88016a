"""Texts that take a while to make, kept in the cache folder under a digest of what they are made of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress

from winogen.toolchain.cache import cache_dir, write_whole


def kept(key: str, make: Callable[[], str]) -> str:
    """Return the text that was kept under ``key``, else what ``make`` returns, which is then kept.

    ``key`` is a digest of all that the text depends on, fit for a file name. The first line of the
    file is a digest of the text, so that a damaged file is as good as none; one that cannot be
    written costs making the text again.

    >>> kept("0", lambda: "a text")
    'a text'
    """
    path = cache_dir() / "texts" / key
    try:
        digest, text = path.read_bytes().split(b"\n", 1)
        if digest.decode() == hashlib.sha256(text).hexdigest():
            return text.decode()
    except (OSError, ValueError):
        pass
    made = make()
    text = made.encode()
    with suppress(OSError):
        write_whole(path, hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
    return made
