"""lowrank: convolutions of low rank, a column and a row of taps, and models made of them."""

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of

if TYPE_CHECKING:
    from winogen.lowrank.layer import LowRank, LowRankPlan

__all__ = ["LowRank", "LowRankPlan"]

_PUBLIC = {"LowRank": "winogen.lowrank.layer", "LowRankPlan": "winogen.lowrank.layer"}
__getattr__ = attribute_of("winogen.lowrank", _PUBLIC)


def __dir__() -> list[str]:
    return __all__
