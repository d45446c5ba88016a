"""torch with a whole net: eager, compiled, and as `winogen.torch` makes it faster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from winogen.lab.nets import Net
from winogen.lab.peers import Way


def eager(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """Module by module, batch normalisation folded, activations channels-last."""

    def build() -> Way:
        module, image = _prepared(net, folder, threads)
        return _way(module, image)

    return {"channels-last": build}


def compiled(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """What torch.compile makes of the module with frozen weights: folded, packed, fused."""

    def build() -> Way:
        import torch
        import torch._inductor.config as inductor

        inductor.freezing = True
        module, image = _prepared(net, folder, threads, fold=False)
        return _way(torch.compile(module), image)

    return {"frozen, channels-last": build}


def optimized(net: Net, folder: Path, threads: int) -> dict[str, Callable[[], Way]]:
    """`winogen.torch.optimize` on the module as it was built."""

    def build() -> Way:
        import winogen.torch

        module, image = _prepared(net, folder, threads, fold=False)
        return _way(winogen.torch.optimize(module, (image,), threads=threads), image)

    return {"optimize": build}


def _prepared(net: Net, folder: Path, threads: int, fold: bool = True) -> tuple[Any, Any]:
    """The module in eval mode and its input, both channels-last."""
    import torch

    from winogen.lab.nets.files import load_module

    torch.set_num_threads(threads)
    module = load_module(net, folder)
    if fold and any(isinstance(m, torch.nn.BatchNorm2d) for m in module.modules()):
        from torch.fx.experimental.optimization import fuse

        module = fuse(module)  # right here, where no convolution is used twice
    image = torch.from_numpy(np.load(folder / "x.npy"))
    module = module.requires_grad_(False).to(memory_format=torch.channels_last)
    return module, image.contiguous(memory_format=torch.channels_last)


def _way(module: Any, image: Any) -> Way:
    import torch

    def run() -> Any:
        with torch.no_grad():
            return module(image)

    return Way(run, lambda y: y.contiguous().numpy())
