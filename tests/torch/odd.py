"""The table of odd models: how one is entered, with its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Arguments = tuple[tuple, dict[str, Any]]
CHANNELS = 8


@dataclass(frozen=True)
class Odd:
    """A model that does something unusual, and what it is called with."""

    name: str
    make: Callable[[], nn.Module]
    of: Callable[[torch.Tensor], Any]  # its arguments, made of one picture
    more: Callable[[torch.Tensor], list[Arguments]]  # other ways to call it
    before: Callable[[], Any]  # called before every call
    around: Callable[[], AbstractContextManager]  # around everything
    dtype: torch.dtype

    def model(self) -> nn.Module:
        """Return it in evaluation mode, the same every time."""
        torch.default_generator.manual_seed(5)
        return self.make().eval()

    def picture(self, n: int = 2, h: int = 16, w: int = 16) -> torch.Tensor:
        """Return a picture."""
        made = torch.Generator().manual_seed(1)
        return torch.randn(n, 3, h, w, generator=made).to(self.dtype)

    def example(self) -> tuple:
        """Return its example inputs."""
        return self.arguments(self.picture())[0]

    def arguments(self, x: torch.Tensor) -> Arguments:
        """Return what a call is given."""
        made = self.of(x)
        return (made if isinstance(made, tuple) else (made,)), {}

    def calls(self) -> Iterator[tuple[str, Callable[[], Arguments]]]:
        """Yield its calls, in their order."""
        last = torch.channels_last
        for what, *size in (
            ("first call",), ("second call",), ("another size", 2, 19, 24), ("one picture", 1),
            ("another batch and size", 3, 24, 16), ("no picture", 0), ("the example again",),
        ):  # fmt: skip
            yield what, lambda size=size: self.arguments(self.picture(*size))
        yield (
            "channels last",
            lambda: self.arguments(self.picture().contiguous(memory_format=last)),
        )
        yield "transposed", lambda: self.arguments(self.picture().mT)
        for i in range(len(self.more(self.picture()))):
            yield f"other arguments {i}", lambda i=i: self.more(self.picture())[i]


ALL: list[Odd] = []


def odd(
    name: str,
    of: Callable[[torch.Tensor], Any] = lambda x: x,
    *,
    more: Callable[[torch.Tensor], list[Arguments]] = lambda x: [],
    before: Callable[[], Any] = lambda: None,
    around: Callable[[], AbstractContextManager] = nullcontext,
    dtype: torch.dtype = torch.float32,
) -> Callable[[Any], Any]:
    """Enter a class of models, or a function that makes one."""

    def entered(make: Any) -> Any:
        ALL.append(Odd(name, make, of, more, before, around, dtype))
        return make

    return entered


def conv(channels: int = CHANNELS, filters: int = CHANNELS, **options: Any) -> nn.Conv2d:
    """A layer that keeps the size."""
    return nn.Conv2d(channels, filters, 3, padding=1, **options)


class Two(nn.Module):
    """Two layers, for a forward of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = conv(3), conv()

    def forward(self, x: torch.Tensor) -> Any:
        """Return both, one behind the other."""
        return self.b(torch.relu(self.a(x)))
