"""lowrank: convolutions of low rank, a column and a row of taps, and models made of them."""

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of

if TYPE_CHECKING:
    from winogen.lowrank.compressing import compress
    from winogen.lowrank.layer import LowRank, LowRankPlan
    from winogen.lowrank.report import Report

__all__ = ["LowRank", "LowRankPlan", "Report", "compress"]

_PUBLIC = {
    "LowRank": "winogen.lowrank.layer",
    "LowRankPlan": "winogen.lowrank.layer",
    "Report": "winogen.lowrank.report",
    "compress": "winogen.lowrank.compressing",
}
__getattr__ = attribute_of("winogen.lowrank", _PUBLIC)


def __dir__() -> list[str]:
    return __all__
