"""What other distributions add to winogen, by groups of entry points.

``winogen.commands`` has commands of the command line, ``winogen.nets`` nets by name, and
``winogen.variants`` algorithms that are only taken where they are named.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# How to get the distribution that this repository has beside winogen.
LABORATORY = "pip install ./lab in a clone of winogen"


@cache
def offered(group: str) -> dict[str, EntryPoint]:
    """Return what is offered in a group by its name; nothing of it is imported.

    >>> offered("winogen.none")
    {}
    """
    from importlib import metadata

    return {one.name: one for one in metadata.entry_points(group=group)}
