"""network: a whole model as C that needs no part of winogen, for engines and devices."""

from winogen.network.writing import WEIGHTS, generate

__all__ = ["WEIGHTS", "generate"]


def __dir__() -> list[str]:
    return __all__
