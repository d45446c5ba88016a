"""The text of a random net in the making: values that fit together, modules, convolutions."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from torch_pieces import CONVOLUTIONS

CHANNELS = (8, 16)  # few, since every other number may take another kernel
MOST_HALVINGS = 2


@dataclass(frozen=True)
class Value:
    """A map in the making: (N, channels, H, W), H and W being some function of the input's."""

    name: str
    channels: int
    size: str = ""  # names the function: what is the same for two maps fits at every input
    dtype: str = "float32"

    @property
    def halvings(self) -> int:
        """How often its sides were halved."""
        return self.size.count("/")


@dataclass
class Writer:
    """The text of a net as far as it is written."""

    rng: random.Random
    made: list[str] = field(default_factory=list)  # lines of __init__
    lines: list[str] = field(default_factory=list)  # lines of forward
    after: list[str] = field(default_factory=list)  # lines of model()
    values: list[Value] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)  # second names, which are returned as well
    convolutions: list[tuple[str, int, int]] = field(default_factory=list)  # keep sizes: reusable
    plain: list[str] = field(default_factory=list)  # names of modules that are nn.Conv2d
    indent: int = 0
    opaque: bool = False
    count: int = 0

    def number(self) -> int:
        """A number that no name has."""
        self.count += 1
        return self.count

    def say(self, line: str) -> None:
        """Write a line of forward."""
        self.lines.append("    " * self.indent + line)

    def module(self, text: str, kind: str = "m") -> str:
        """Make a module, and return the name by which forward calls it."""
        name = f"{kind}{self.number()}"
        self.made.append(f"self.{name} = {text}")
        if text.startswith("nn.Conv2d("):
            self.plain.append(name)
        return f"self.{name}"

    def new(self, text: str, like: Value, **changed: Any) -> Value:
        """Write `v = text`, and return the value."""
        fields = {"channels": like.channels, "size": like.size, "dtype": like.dtype} | changed
        value = Value(f"v{self.number()}", **fields)
        self.say(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def pick(self, *, late: bool = True) -> Value:
        """A value, rather one of the last."""
        recent = self.values[-2:] if late and self.rng.random() < 0.7 else self.values
        return self.rng.choice(recent)

    def like(self, value: Value) -> Value:
        """Another value of the same sizes, made by a convolution where there is none."""
        same = [
            other for other in self.values
            if other != value and (other.channels, other.size, other.dtype)
            == (value.channels, value.size, value.dtype)
        ]  # fmt: skip
        if same and self.rng.random() < 0.8:
            return self.rng.choice(same)
        return conv(self, value, value.channels)


def conv(w: Writer, x: Value, channels: int | None = None, *, kinds: tuple = CONVOLUTIONS) -> Value:
    """A convolution; one that is there already, now and then."""
    usable = [c for c in w.convolutions if c[1] == x.channels and channels in (None, c[2])]
    if x.dtype == "float32" and usable and w.rng.random() < 0.2:
        name, _, many = w.rng.choice(usable)
        return w.new(f"{name}({x.name})", x, channels=many)
    fitting = [
        kind for kind in kinds
        if (channels is None or not kind.size)
        and (x.halvings < MOST_HALVINGS or "/" not in kind.size)
        and (not kind.depthwise or channels in (None, x.channels)) and x.channels % kind.groups == 0
    ]  # fmt: skip
    kind = w.rng.choices(fitting, [k.weight for k in fitting])[0]
    many = x.channels if kind.depthwise else channels or w.rng.choice(CHANNELS)
    text = kind.text.format(c=x.channels, k=many)
    name = w.module(text + ".double()" * (x.dtype == "float64"), "c")
    if not kind.size and x.dtype == "float32":
        w.convolutions.append((name, x.channels, many))
    return w.new(f"{name}({x.name})", x, channels=many, size=x.size + kind.size)
