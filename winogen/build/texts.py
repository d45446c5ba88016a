"""Texts that take a while to make, kept in the cache folder under a digest of what they are made of."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable
from contextlib import suppress

from .cache import cache_dir


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
    draft = path.with_name(f"{key}.{uuid.uuid4().hex[:12]}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
        os.replace(draft, path)
    return made
