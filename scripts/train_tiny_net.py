#!/usr/bin/env python3
"""Train the small upscaler that the repository keeps, in about a minute on one core.

    python scripts/train_tiny_net.py

Three 3x3 convolutions and a pixel shuffle, whose result is added to the enlarged picture. It learns
from drawn shapes and textures, and from the upper half of matplotlib's sample photograph; how good
it is on the lower half is printed beside bicubic interpolation. Needs torch. Writes
lab/winogen_lab/nets/tiny/upscale2x.param and .bin in ncnn's format.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from winogen.demo.photograph import photograph
from winogen_lab.nets.ncnn_files import NcnnLayer, write

FOLDER = Path(__file__).parents[1] / "lab" / "winogen_lab" / "nets" / "tiny"
WIDTH, PATCH, BATCH, STEPS = 16, 32, 16, 6000


class Upscaler(nn.Module):
    """(N, 3, H, W) to (N, 3, 2H, 2W)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, WIDTH, 3, padding=1),
            nn.PReLU(WIDTH),
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
            nn.PReLU(WIDTH),
            nn.Conv2d(WIDTH, 12, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.pixel_shuffle(self.layers(x), 2) + functional.interpolate(x, None, 2)


def drawn(generator: np.random.Generator, size: int = 256) -> np.ndarray:
    """A picture (3, size, size) of discs, bars and waves in random colours, without aliasing."""
    fine = 4 * size
    y, x = np.mgrid[0 : 1 : fine * 1j, 0 : 1 : fine * 1j].astype(np.float32)
    picture = np.ones((3, fine, fine), np.float32) * generator.random((3, 1, 1), np.float32)
    for _ in range(24):
        a, b, radius, angle = generator.random(4)
        kind, colour = generator.integers(3), generator.random((3, 1, 1), np.float32)
        across = (x - a) * np.cos(7 * angle) + (y - b) * np.sin(7 * angle)
        if kind == 0:
            mask = (x - a) ** 2 + (y - b) ** 2 < (0.25 * radius) ** 2
        elif kind == 1:
            mask = abs(across) < 0.02 * radius
        else:
            mask = (np.sin((20 + 180 * radius) * across) > 0) & (abs(x - b) < 0.1)
        picture = np.where(mask, colour, picture)
    return picture.reshape(3, size, 4, size, 4).mean((2, 4))


def halved(picture: torch.Tensor) -> torch.Tensor:
    """The mean of every 2 x 2 pixels."""
    return functional.avg_pool2d(picture, 2)


def decibels(a: torch.Tensor, b: torch.Tensor) -> float:
    """The peak signal-to-noise ratio."""
    return float(-10 * torch.log10(functional.mse_loss(a.clamp(0, 1), b)))


def main() -> None:
    """Train, say how well it does, write the files."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    photo = torch.from_numpy(photograph())
    upper, lower = photo[:, :300], photo[None, :, 300:]
    pictures = [upper] * 6 + [torch.from_numpy(drawn(generator)) for _ in range(6)]
    net = Upscaler()
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for step in range(STEPS):
        patches = []
        for _ in range(BATCH):
            picture = pictures[generator.integers(len(pictures))]
            top, left = (int(generator.integers(n - PATCH + 1)) for n in picture.shape[1:])
            patch = picture[:, top : top + PATCH, left : left + PATCH]
            patches.append(patch.rot90(int(generator.integers(4)), (1, 2)))
        large = torch.stack(patches)
        loss = (functional.mse_loss(net(halved(large)), large) + 1e-6).sqrt()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 1000 == 999:
            print(f"step {step + 1} of {STEPS}: root mean square error {loss.item():.4f}")
    with torch.no_grad():
        small = halved(lower)
        cubic = functional.interpolate(small, None, 2, mode="bicubic")
        print(f"photograph: {decibels(net(small), lower):.2f} dB; ", end="")
        print(f"bicubic {decibels(cubic, lower):.2f} dB")
    FOLDER.mkdir(exist_ok=True)
    write(as_ncnn(net), FOLDER / "upscale2x.param", FOLDER / "upscale2x.bin")


def as_ncnn(net: Upscaler) -> list[NcnnLayer]:
    """The net as layers of ncnn's text."""
    layers = [
        NcnnLayer("Input", "picture", (), ("x",)),
        NcnnLayer("Split", "twice", ("x",), ("x0", "x1")),
    ]
    blob = "x0"
    for number, module in enumerate(net.layers):
        name, weights = f"y{number}", {k: v.detach().numpy() for k, v in module.named_parameters()}
        if isinstance(module, nn.PReLU):
            options = {0: module.num_parameters}
            layers.append(
                NcnnLayer("PReLU", name, (blob,), (name,), options, {"slopes": weights["weight"]})
            )
        else:
            options = {0: module.out_channels, 1: 3, 4: 1, 5: 1, 6: module.weight.numel()}
            layers.append(NcnnLayer("Convolution", name, (blob,), (name,), options, weights))
        blob = name
    return [
        *layers,
        NcnnLayer("PixelShuffle", "shuffle", (blob,), ("large",), {0: 2}),
        NcnnLayer("Interp", "nearest", ("x1",), ("repeated",), {0: 1, 1: 2.0, 2: 2.0}),
        NcnnLayer("BinaryOp", "sum", ("large", "repeated"), ("y",), {0: 0}),
    ]


if __name__ == "__main__":
    main()
