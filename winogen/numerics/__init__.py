"""How accurate an algorithm is: measured, estimated, bounded, and searched for.

>>> from winogen.algebra import cook_toom
>>> from winogen.numerics import estimate, measure
>>> found = measure(cook_toom(4, 3), trials=1000)
>>> expected = estimate(cook_toom(4, 3))
>>> expected.mean / 2 < found.mean < expected.mean * 2
True
"""

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of

if TYPE_CHECKING:
    from winogen.numerics.protocol import LITERATURE as LITERATURE
    from winogen.numerics.protocol import PRACTICAL as PRACTICAL
    from winogen.numerics.protocol import Measurement as Measurement
    from winogen.numerics.protocol import measure as measure
    from winogen.rounding.bounds import error_bound as error_bound
    from winogen.rounding.bounds import tile_error_bound as tile_error_bound
    from winogen.rounding.data import Distribution as Distribution
    from winogen.rounding.tiles import Direct as Direct
    from winogen.rounding.variance import Estimate as Estimate
    from winogen.rounding.variance import estimate as estimate

# Loaded on first use: a plan that only wants a bound should not pay for the search.
_PUBLIC = {
    "LITERATURE": "winogen.numerics.protocol",
    "PRACTICAL": "winogen.numerics.protocol",
    "Measurement": "winogen.numerics.protocol",
    "measure": "winogen.numerics.protocol",
    "Distribution": "winogen.rounding.data",
    "Direct": "winogen.rounding.tiles",
    "Estimate": "winogen.rounding.variance",
    "estimate": "winogen.rounding.variance",
    "error_bound": "winogen.rounding.bounds",
    "tile_error_bound": "winogen.rounding.bounds",
}
__all__ = sorted(_PUBLIC)

if not TYPE_CHECKING:  # who checks types would let any name pass
    __getattr__ = attribute_of(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return __all__
