"""Where tests keep what they compile: outside of the clone, for all stages, clones and runs.

WINOGEN_TEST_CACHE chooses the folder. What lies there has a name made of all that it follows from,
so that none of it can be stale; deleting the folder costs only time.
"""

import os
from pathlib import Path

from platformdirs import user_cache_path

# Bytes that the kernels may take; those of the whole suite take less than half.
LIMIT = "3G"


def kept(name: str) -> Path:
    """Return the folder of this name in the test cache; made if it is not there."""
    chosen = os.environ.get("WINOGEN_TEST_CACHE")
    root = Path(chosen) if chosen else user_cache_path("winogen-tests", appauthor=False)
    folder = root.expanduser().absolute() / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
