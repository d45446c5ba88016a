"""What a compressed model may cost, or how good it must be: "2x", "products:2x", "36dB", "10ms"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from winogen.errors import InvalidType, InvalidValue

_ALLOWED = (
    "a factor of the convolutions' predicted time, products or weights, as 2x, products:2x or "
    "params:2x; a quality, as 36dB; or their predicted time, as 10ms"
)
_FORM = re.compile(r"(?:(products|params):)?(\d+\.?\d*|\.\d+)(x|dB|ms)", re.ASCII)


@dataclass(frozen=True)
class CompressionBudget:
    """A limit on the sum of what layers cost, or on the quality of the outputs.

    >>> CompressionBudget.of("products:1.5x"), str(CompressionBudget.of("36dB"))
    (CompressionBudget(cost='products', value=1.5, unit='x'), '36dB')
    """

    cost: Literal["seconds", "products", "params"]  # what is to be small
    value: float
    unit: str  # "x": so many times less of it; "ms": so much of it; "dB": as little as that allows

    @classmethod
    def of(cls, text: Any) -> CompressionBudget:
        """Return what a text asks for; raises InvalidType and InvalidValue."""
        if not isinstance(text, str):
            raise InvalidType(f"budget: got {text!r}; allowed: {_ALLOWED}")
        found = _FORM.fullmatch(text)
        if not found or (found[1] and found[3] != "x"):
            raise InvalidValue(f"budget: got {text!r}; allowed: {_ALLOWED}")
        value = float(found[2])
        if value <= (1 if found[3] == "x" else 0):
            least = "a factor above 1" if found[3] == "x" else "a positive number"
            raise InvalidValue(f"budget: got {text!r}; allowed: {least}")
        return cls(found[1] or "seconds", value, found[3])  # type: ignore[arg-type]

    @property
    def of_quality(self) -> bool:
        """Whether it is the quality that is given."""
        return self.unit == "dB"

    def limit(self, before: float) -> float:
        """Return the largest sum of costs; ``before``: that of the model as it was."""
        return before / self.value if self.unit == "x" else self.value / 1e3

    def point(self, before: float, cost: float) -> str:
        """Return a sum of costs in the words of a budget."""
        if self.unit == "ms":
            return f"{1e3 * cost:.3g}ms"
        name = "" if self.cost == "seconds" else f"{self.cost}:"
        return f"{name}{before / cost:.3g}x"

    def __str__(self) -> str:
        name = "" if self.cost == "seconds" else f"{self.cost}:"
        return f"{name}{self.value:g}{self.unit}"
