"""What happens to finished sums on their way to memory.

A new activation is a new entry of `ACTIVATIONS`: the arguments of `conv2d`, the struct, the C of
every kernel and the command line follow from it. It needs its meaning in numpy in the reference of
the tests.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Activation:
    """A function of one number, fused into every kernel."""

    name: str  # what `activation=` calls it
    means: str  # for readers
    c: str  # of the vector y[i] and the parameters, vectors a and b
    parameters: tuple[str, ...] = ()  # what they are called; at most two

    @property
    def code(self) -> int:
        """Its number in the struct of a kernel; 0 is none."""
        return 1 + list(ACTIVATIONS).index(self.name)

    @property
    def spelled(self) -> str:
        """How a user asks for it.

        >>> ACTIVATIONS["leaky_relu"].spelled
        '("leaky_relu", slope)'
        """
        if not self.parameters:
            return f'"{self.name}"'
        return f'("{self.name}", {", ".join(self.parameters)})'


ACTIVATIONS: dict[str, Activation] = {
    activation.name: activation
    for activation in (
        Activation("relu", "max(y, 0)", "relu_of(y[i])"),
        Activation(
            "leaky_relu",
            "y where y >= 0, else slope * y",
            "choose(y[i] < (vec){0}, a * y[i], y[i])",
            ("slope",),
        ),
    )
}


@dataclass(frozen=True)
class Epilogue:
    """y = activation(sums + bias); the bias comes with the call."""

    activation: str | None = None
    parameters: tuple[float, ...] = ()

    @property
    def code(self) -> int:
        """The activation's number in the struct of a kernel; 0 for none."""
        return 0 if self.activation is None else ACTIVATIONS[self.activation].code

    @property
    def means(self) -> str:
        """What it does, for readers; "" for nothing.

        >>> Epilogue("leaky_relu", (0.1,)).means
        'y where y >= 0, else slope * y, slope 0.1'
        """
        if self.activation is None:
            return ""
        known = ACTIVATIONS[self.activation]
        values = (f", {name} {value:g}" for name, value in zip(known.parameters, self.parameters))
        return known.means + "".join(values)
