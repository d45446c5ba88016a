"""hardware: a model of engines that compute layers tile by tile, in cycles, words and integers.

>>> from winogen.hardware import Engine
>>> engine = Engine(16, 4, 16, 2)
>>> mapping = engine.mapping((1, 64, 56, 56), (64, 64, 3, 3), padding=1)
>>> mapping.cycles, mapping.utilisation
(25088, 1.0)
"""

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of

if TYPE_CHECKING:
    from winogen.hardware.engine import Engine
    from winogen.hardware.events import simulate
    from winogen.hardware.functional import convolve
    from winogen.hardware.mapping import Mapping

__all__ = ["Engine", "Mapping", "convolve", "simulate"]

_PUBLIC = {
    "Engine": "winogen.hardware.engine",
    "Mapping": "winogen.hardware.mapping",
    "convolve": "winogen.hardware.functional",
    "simulate": "winogen.hardware.events",
}
__getattr__ = attribute_of("winogen.hardware", _PUBLIC)


def __dir__() -> list[str]:
    return __all__
