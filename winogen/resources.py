"""Where the C templates (``csrc/``) and the generated transforms (``transforms/``) are found.

They stand beside the package in a checkout and inside it once installed from a wheel.
"""

import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def package() -> Path:
    """Return the folder of the package itself."""
    return _PACKAGE


def folder(name: str) -> Path:
    """Return the folder ``name`` ("csrc" or "transforms"), installed or in the checkout."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


@cache
def code_digest(*folders: str) -> str:
    """Return a digest of the modules in these folders of the package and below them.

    >>> code_digest("conv") == code_digest("conv") != code_digest("graph")
    True
    """
    digest = hashlib.sha256()
    for name in folders:
        for path in sorted((_PACKAGE / name).rglob("*.py")):
            relative = path.relative_to(_PACKAGE).as_posix()
            digest.update(f"{relative} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
