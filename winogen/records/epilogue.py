"""What happens to finished sums on their way to memory.

A new activation is a new entry of `ACTIVATIONS`: the arguments of `conv2d`, the struct, the C of
every kernel and the command line follow from it. CONTRIBUTING.md says what else it needs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Activation:
    """A function of one number, fused into every kernel."""

    name: str  # what `activation=` calls it
    code: int  # its number in the struct of a kernel, which no other has; 0 is none
    means: str  # for readers
    c: str  # of the vector y and the parameters, vectors a and b
    parameters: tuple[str, ...] = ()  # what they are called; at most two
    per_filter: bool = False  # whether its parameter a is an array, a number for each filter
    needs: str = ""  # the function in csrc/parts/activation.h.j2 that it calls, if any
    spelling: tuple[str, ...] = ()  # how a user asks for it, where that is not by its name

    @property
    def spelled(self) -> str:
        """How a user asks for it.

        >>> ACTIVATIONS["leaky_relu"].spelled
        '("leaky_relu", slope)'
        """
        if self.spelling:
            return "(" + ", ".join(f'"{word}"' for word in self.spelling) + ")"
        if not self.parameters:
            return f'"{self.name}"'
        return f'("{self.name}", {", ".join(self.parameters)})'

    @property
    def option(self) -> str:
        """How the command line asks for it. Slopes of filters come with the call.

        >>> ACTIVATIONS["leaky_relu"].option, ACTIVATIONS["gelu_tanh"].option
        ('leaky_relu:SLOPE', 'gelu:tanh')
        """
        parameters = () if self.per_filter else (name.upper() for name in self.parameters)
        return ":".join([*(self.spelling or (self.name,)), *parameters])


ACTIVATIONS: dict[str, Activation] = {
    activation.name: activation
    for activation in (
        Activation("relu", 1, "max(y, 0)", "relu_of(y)"),
        Activation(
            "leaky_relu",
            2,
            "y where y >= 0, else slope * y",
            "choose(y < (vec){0}, a * y, y)",
            ("slope",),
        ),
        Activation(
            "prelu",
            3,
            "y where y >= 0, else slope * y, a slope for each filter",
            "choose(y < (vec){0}, a * y, y)",
            ("slopes",),
            per_filter=True,
        ),
        Activation(
            "clip",
            4,
            "y, but at least lo and at most hi",
            "choose(y < a, a, choose(y > b, b, y))",
            ("lo", "hi"),
        ),
        Activation(
            "relu6", 5, "max(y, 0), but at most 6", "choose(y > 6, 6 + (vec){0}, relu_of(y))"
        ),
        Activation(
            "hardswish",
            6,
            "y * min(max(y + 3, 0), 6) / 6",
            "y * choose(y > 3, 6 + (vec){0}, relu_of(y + 3)) / 6",
        ),
        Activation("silu", 7, "y / (1 + exp(-y))", "silu_of(y)", needs="silu"),
        Activation("gelu", 8, "y * Phi(y), Phi of normal data", "gelu_of(y)", needs="gelu"),
        Activation(
            "gelu_tanh",
            9,
            "y / 2 * (1 + tanh(sqrt(2 / pi) * (y + 0.044715 * y^3)))",
            "gelu_tanh_of(y)",
            needs="gelu_tanh",
            spelling=("gelu", "tanh"),
        ),
    )
}


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
        known = ACTIVATIONS[self.activation]
        values = (f", {name} {value:g}" for name, value in zip(known.parameters, self.parameters))
        where = f" of y{sums}{after}" if sums or after else ""
        return f"{known.means}{''.join(values)}{where}"
