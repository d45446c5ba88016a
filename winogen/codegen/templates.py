"""The Jinja2 templates in ``csrc/``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from winogen import resources

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment() -> Environment:
    """Return the environment that every template is loaded from; undefined names are errors."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(resources.folder("csrc")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
