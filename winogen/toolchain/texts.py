"""Texts that take a while to make, kept in the cache folder under a digest of their sources."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

from winogen.toolchain import blobs


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
    packed = blobs.read("texts", key)
    try:
        return None if packed is None else zlib.decompress(packed).decode()
    except (ValueError, zlib.error):
        return None


def write(key: str, text: str) -> None:
    """Keep a text in place of an earlier one; where that cannot be, it will have to be made again.

    It is compressed, since the cache has each text of a kernel again beside its library.
    """
    blobs.write("texts", key, zlib.compress(text.encode()))
