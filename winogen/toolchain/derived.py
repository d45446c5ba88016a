"""Results of long searches, kept in the cache folder for later processes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from winogen.toolchain import trust
from winogen.toolchain.cache import cache_dir, write_whole

_Made = TypeVar("_Made")
_Result = TypeVar("_Result")


def kept(key: list[Any], make: Callable[[], _Made], check: Callable[[_Made], _Result]) -> _Result:
    """Return ``check`` of what ``make`` returns, or returned in an earlier process.

    ``key``: JSON-ready; what the result depends on, beside the code that searches and renders.
    ``make`` takes seconds and returns something JSON-ready; ``check`` turns that into the result,
    or raises because it is damaged.
    """
    digest = hashlib.sha256(json.dumps([_code(), key]).encode()).hexdigest()
    path = cache_dir() / "derived" / f"{digest}.json"
    try:
        found = check(json.loads(trust.read(path)))
        with suppress(OSError):
            path.touch()  # the time of last use, by which old files are told
        return found
    except Exception:  # not there, cut off or of others: whatever is wrong, it is made anew
        pass
    result = make()
    with suppress(OSError):  # nothing is lost but the time of the next search
        write_whole(path, json.dumps(result).encode())
    return check(result)


@cache
def _code() -> str:
    """A digest of all code and templates that a result may depend on."""
    from winogen import resources

    package = resources.package()
    folders = [package / name for name in ("algebra", "program", "codegen")]
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    files.append(resources.folder("csrc") / "transform.h.j2")
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()
