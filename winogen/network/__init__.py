"""network: a whole model as C that needs no part of winogen, for engines and devices."""

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of

if TYPE_CHECKING:
    from winogen.network.writing import WEIGHTS as WEIGHTS
    from winogen.network.writing import generate as generate

__all__ = ["WEIGHTS", "generate"]

# Loaded on first use: the command line asks for the names of hosts alone.
_PUBLIC = dict.fromkeys(__all__, "winogen.network.writing")
if not TYPE_CHECKING:  # who checks types would let any name pass
    __getattr__ = attribute_of(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return __all__
