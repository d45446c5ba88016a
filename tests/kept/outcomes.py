"""What came out right before and follows from texts alone comes out right again.

Only for what is the same at every run: not for threads that may race, nor for times.
"""

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from kept.compilers import without
from kept.folders import kept

DAYS = 30  # that a note stays after its last use


class Right:
    """Whether something came out right before; ``parts`` are all that it follows from."""

    def __init__(self, *parts: object) -> None:
        digest = hashlib.sha256(repr(parts).encode()).hexdigest()
        self.path = kept("right") / digest[:2] / digest

    def __bool__(self) -> bool:
        """Whether it did; such a note is used again."""
        try:
            os.utime(self.path)
        except OSError:
            return False
        return True

    def note(self) -> None:
        """Say that it did."""
        with suppress(OSError):
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            self.path.touch()


def stamps(*names: str) -> tuple[tuple[str, int, int], ...]:
    """Return what changes with programs on the path, or with other files."""
    found = []
    for name in names:
        path = shutil.which(name, path=without(os.environ["PATH"])) or name
        with suppress(OSError):
            status = os.stat(path)
            found.append((os.path.realpath(path), status.st_size, status.st_mtime_ns))
    return tuple(found)


def prune(now: float) -> None:
    """Remove notes that nobody has used for long."""
    for path in kept("right").glob("*/*"):
        with suppress(OSError):
            if now - Path(path).stat().st_mtime > DAYS * 86400:
                path.unlink()
