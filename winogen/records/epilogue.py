"""What happens to finished sums on their way to memory."""

from __future__ import annotations

from dataclasses import dataclass

from winogen.records.activations import ACTIVATIONS


@dataclass(frozen=True)
class Epilogue:
    """y = activation(sums + bias + add) + add_after; arrays come with the call."""

    activation: str | None = None
    parameters: tuple[float, ...] = ()
    add: bool = False
    add_after: bool = False

    @property
    def code(self) -> int:
        """The activation's number in the struct of a kernel; 0 for none."""
        return 0 if self.activation is None else ACTIVATIONS[self.activation].code

    @property
    def per_filter(self) -> bool:
        """Whether the activation has parameters of every filter: an array."""
        return self.activation is not None and ACTIVATIONS[self.activation].per_filter

    @property
    def cap(self) -> float | None:
        """What it is below where it is max(y, 0) with an end: of relu6, or of clip from 0 on."""
        if self.activation == "relu6":
            return 6.0
        is_capped = self.activation == "clip" and self.parameters[0] == 0
        return self.parameters[1] if is_capped else None

    def ends_early(self, adds_early: bool) -> bool:
        """Whether a kernel does all of it while the sums are in registers: ReLU, or capped.

        ``adds_early``: whether the kernel can add there.
        """
        added = (self.add and not adds_early) or self.add_after
        return (self.activation in (None, "relu") or self.cap is not None) and not added

    @property
    def means(self) -> str:
        """What it does, for readers; "" for nothing.

        >>> Epilogue("leaky_relu", (0.1,)).means
        'y where y >= 0, else slope * y, slope 0.1'
        """
        sums = " + add" if self.add else ""
        after = " + add_after" if self.add_after else ""
        if self.activation is None:
            return f"y{sums}{after}" if sums or after else ""
        function = ACTIVATIONS[self.activation]
        values = (
            f", {name} {value:g}" for name, value in zip(function.parameters, self.parameters)
        )
        where = f" of y{sums}{after}" if sums or after else ""
        return f"{function.means}{''.join(values)}{where}"
