"""Texts that take a while to make, kept in the cache folder under a digest of their sources."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from winogen.errors import CacheUnavailable
from winogen.toolchain import trust
from winogen.toolchain.cache import cache_root, write_whole


class Text(NamedTuple):
    """A text that is made when somebody wants it, and known by its key until then.

    ``key`` is a digest of all that the text depends on, fit for a file name.
    """

    key: str
    make: Callable[[], str]

    def __str__(self) -> str:
        return kept(self.key, self.make)


def kept(key: str, make: Callable[[], str]) -> str:
    """Return the text kept under ``key``; if there is none, keep and return what ``make`` returns.

    ``key`` is a digest of all that the text depends on, fit for a file name.

    >>> kept("0", lambda: "a text")
    'a text'
    """
    text = read(key)
    if text is None:
        text = make()
        write(key, text)
    return text


def read(key: str) -> str | None:
    """Return the text kept under ``key``; None where there is none that is whole."""
    try:
        path = cache_root() / "texts" / key
        digest, packed = trust.read(path).split(b"\n", 1)
        text = zlib.decompress(packed)
        if digest.decode() == hashlib.sha256(text).hexdigest():
            with suppress(OSError):
                path.touch()  # the time of last use, by which old texts are told
            return text.decode()
    except (CacheUnavailable, OSError, ValueError, zlib.error):
        pass
    return None


def write(key: str, text: str) -> None:
    """Keep a text in place of an earlier one; where that cannot be, it will have to be made again.

    The first line of the file is a digest of the text, so that a damaged file is as good as none;
    what follows is compressed, since the cache has each text of a kernel again beside its library.
    """
    data = text.encode()
    whole = hashlib.sha256(data).hexdigest().encode() + b"\n" + zlib.compress(data)
    with suppress(CacheUnavailable, OSError):
        write_whole(cache_root() / "texts" / key, whole)
