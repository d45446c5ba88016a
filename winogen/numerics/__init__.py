"""How accurate an algorithm is: measured, estimated, bounded, and searched for.

>>> from winogen.algebra import cook_toom
>>> from winogen.numerics import estimate, measure
>>> found = measure(cook_toom(4, 3), trials=1000)
>>> expected = estimate(cook_toom(4, 3))
>>> expected.mean / 2 < found.mean < expected.mean * 2
True
"""

from importlib import import_module
from typing import Any

# Loaded on first use: a plan that only wants a bound should not pay for the search.
_PUBLIC = {
    "LITERATURE": "numerics.protocol",
    "PRACTICAL": "numerics.protocol",
    "Measurement": "numerics.protocol",
    "measure": "numerics.protocol",
    "Distribution": "rounding.data",
    "Direct": "rounding.tiles",
    "Estimate": "rounding.variance",
    "estimate": "rounding.variance",
    "error_bound": "rounding.bounds",
    "tile_error_bound": "rounding.bounds",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(import_module(f"winogen.{_PUBLIC[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'winogen.numerics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
