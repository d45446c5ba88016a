"""The options of a convolution, as the user gives them: declared once for all functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

_POSITIONAL = ("stride", "padding", "dilation", "groups")
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Options:
    """What `conv2d` takes besides arrays; `conv2d` says what each means and allows.

    `Layer.of` checks the first seven, `Request.of` the others.
    """

    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: Any = 1
    padding_mode: Any = "zeros"
    layout: Any = "NCHW"
    activation: Any = None
    algorithm: Any = "auto"
    tile: Any = None
    points: Any = None
    moduli: Any = None
    order: Any = None
    edge: Any = "discard"
    border: Any = "unswitch"
    filter_dtype: Any = None
    product_dtype: Any = None
    threads: Any = None
    workspace_limit: Any = None
    tolerance: Any = None

    @classmethod
    def of(cls, positional: tuple[Any, ...], named: dict[str, Any], function: str) -> Options:
        """Return options from a call; raises TypeError as Python does for a wrong call."""
        if len(positional) > len(_POSITIONAL):
            raise TypeError(
                f"{function}() takes at most {len(_POSITIONAL)} options without a name, "
                f"{', '.join(_POSITIONAL)}, but {len(positional)} were given"
            )
        options = dict(zip(_POSITIONAL, positional))
        for name in named:
            if name in options:
                raise TypeError(f"{function}() got multiple values for argument '{name}'")
            if name not in NAMES:
                raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        return cls(**options, **named)


NAMES = tuple(field.name for field in fields(Options))


def takes_options(function: _Function) -> _Function:
    """Show the options in the signature of a function that takes them as ``*args, **options``."""
    signature = inspect.signature(function)
    own = list(signature.parameters.values())
    before = [p for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
    after = [p for p in own if p.kind is p.KEYWORD_ONLY]
    options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD
            if field.name in _POSITIONAL
            else inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
        )
        for field in fields(Options)
    ]
    function.__signature__ = signature.replace(parameters=[*before, *options, *after])  # type: ignore[attr-defined]
    return function
