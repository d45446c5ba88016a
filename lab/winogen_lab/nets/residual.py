"""A small trained ResNet for the handwritten digits of `winogen_lab.nets.digits`.

`scripts/residual_net.py` trained it, without the samples that are held out there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.extras import require

if TYPE_CHECKING:
    from torch import nn

FILE = Path(__file__).parent / "tiny" / "residual.npz"
_WIDTHS = 16, 32, 64  # of the blocks, each but the first of which halves the map


def architecture() -> nn.Sequential:
    """Return the net with torch's random weights: (N, 1, 8, 8) to scores (N, 10).

    A convolution and three residual blocks: seven 3x3 layers, five of them of stride 1, and two
    shortcuts. Raises MissingPackage.
    """
    modules = require("torch.nn", "torch")
    from winogen_lab.nets.blocks import ConvBN
    from winogen_lab.nets.classifiers import Basic

    layers, channels = [ConvBN(1, _WIDTHS[0])], _WIDTHS[0]
    for number, width in enumerate(_WIDTHS):
        layers.append(Basic(channels, width, 2 if number else 1))
        channels = width
    ends = modules.AdaptiveAvgPool2d(1), modules.Flatten(), modules.Linear(channels, 10)
    return modules.Sequential(*layers, *ends)


def residual() -> nn.Sequential:
    """Return the trained net in eval mode; raises MissingPackage."""
    torch = require("torch", "torch")
    net = architecture()
    with np.load(FILE) as file:
        state = {name: torch.from_numpy(file[name].astype(np.float32)) for name in file.files}
    net.load_state_dict(state, strict=False)  # without how many batches there were
    return net.eval()


def write(net: nn.Sequential) -> None:
    """Keep the weights and statistics of a net, rounded to float16."""
    kept: dict[str, Any] = {
        name: value.numpy().astype(np.float16)
        for name, value in net.state_dict().items()
        if value.ndim
    }
    np.savez_compressed(FILE, **kept)
