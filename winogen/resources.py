"""Where the C templates (``csrc/``) and the generated transforms (``transforms/``) are found.

They stand beside the package in a checkout and inside it once installed from a wheel.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def package() -> Path:
    """Return the folder of the package itself."""
    return _PACKAGE


def folder(name: str) -> Path:
    """Return the folder ``name`` ("csrc" or "transforms"), installed or in the checkout."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
