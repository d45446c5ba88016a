"""Where commands write what they measured, and how wide they print it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH = 190  # of a report that goes to a file
_PICTURES = (".png", ".svg", ".pdf")


def print_wide(text: RenderableType) -> None:
    """Print tables; where nobody looks on, as wide as they are."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(text)


def check_outputs(results: Path | None, plot: Path | None) -> None:
    """Raise now what would otherwise be lost minutes later."""
    from winogen.errors import InvalidValue
    from winogen.extras import require
    from winogen.files import check_regular

    if plot is not None and plot.suffix.lower() not in _PICTURES:
        raise InvalidValue(f"plot: got {str(plot)!r}; allowed: a name with {', '.join(_PICTURES)}")
    if plot is not None:
        require("matplotlib", "plot")
    for option, path in (("results", results), ("plot", plot)):
        if path is None:
            continue
        check_regular(option, path, "a file that is not there yet, or a regular one")
        exists = path.exists()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "a"):
                pass
        except OSError as error:
            raise InvalidValue(
                f"{option}: got {str(path)!r} ({error.strerror}); allowed: a file to write"
            ) from None
        if not exists:
            path.unlink()
