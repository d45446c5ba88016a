"""A causal U-Net of an audio signal as C that keeps its state: 10 ms a call, the bits of streams.

Run: python examples/audio_as_c.py

Beside the C the same layers run in Python, as in audio_in_pieces.py.
Needs torch, onnx and onnxruntime: pip install '.[torch,onnx]'.
"""

import ctypes
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import winogen
from winogen.network import generate

try:
    import torch
    from torch.nn import functional
except ImportError as missing:
    sys.exit(f"{missing.name}: cannot be imported; install it by pip install '.[torch,onnx]'")

LAYERS = {  # channels, filters, taps, stride, dilation
    "first": (1, 24, 15, 1, 1), "down": (24, 48, 5, 2, 1), "deep": (48, 96, 5, 2, 1), "context":
    (96, 96, 3, 1, 4), "up": (96, 48, 3, 1, 1), "last": (48, 24, 3, 1, 1), "sound": (24, 1, 3, 1, 1)
}  # fmt: skip


class UNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers = {k: torch.nn.Conv1d(*n[:4], dilation=n[4], bias=False) for k, n in LAYERS.items()}
        self.layers = torch.nn.ModuleDict(layers)

    def layer(self, name, x, skip=0.0):
        before = (LAYERS[name][2] - 1) * LAYERS[name][4]
        return self.layers[name](functional.pad(x, (before, 0))).relu() + skip

    def forward(self, x):
        return u_net(self.layer, lambda x: functional.interpolate(x, scale_factor=2), x)


def u_net(layer, doubled, x):
    """What all compute; ``layer``: of a name, an input and what is added to its output."""
    whole = layer("first", x)
    half = layer("down", whole)
    half = layer("up", doubled(layer("context", layer("deep", half))), half)
    return layer("sound", layer("last", doubled(half), whole))


def as_streams(net):
    streams = {}
    for name, (_, _, _, stride, dilation) in LAYERS.items():
        weight = net.layers[name].weight.detach().numpy()
        options = {"padding": "causal", "stride": stride, "dilation": dilation, "threads": 1}
        streams[name] = winogen.Conv1d(weight, **options, activation="relu").stream()
    layer = lambda name, x, y=None: streams[name](x, add_after=y)  # noqa: E731
    return lambda x: u_net(layer, lambda x: np.repeat(x, 2, 2), x)


def as_c(folder):
    sources = [str(path) for path in folder.glob("*.c") if path.name != "sound_test.c"]
    flags = "-O3", "-ffp-contract=fast", "-shared", "-fPIC", "-lm"
    subprocess.run(["cc", *sources, *flags, "-o", "sound.so"], check=True)
    library = ctypes.CDLL("./sound.so")
    header = (folder / "sound.h").read_text("utf-8")
    sizes = (re.search(rf"SOUND_{what}_BYTES (\d+)", header)[1] for what in ("ARENA", "STATE"))
    arena, state = (np.empty(int(size) + 64, np.uint8) for size in sizes)
    arena = arena[-arena.ctypes.data % 64 :]
    library.sound_reset(state.ctypes)

    def run(x):
        y = np.empty_like(x)
        library.sound_run(x.ctypes, y.ctypes, state.ctypes, arena.ctypes)
        return y

    return run


torch.manual_seed(0)
net = UNet().eval()
names = {"input_names": ["x"], "output_names": ["y"], "dynamo": False}
torch.onnx.export(net, (torch.zeros(1, 1, 960),), "sound.onnx", **names)
generate("sound.onnx", name="sound", pieces=480).write("sound")
subprocess.run(["make", "-s", "test"], cwd="sound", check=True)

runs = {"C": as_c(Path("sound")), "streams in Python": as_streams(net)}
times, sounds = ({name: [] for name in runs} for _ in range(2))
for piece in np.random.default_rng(0).standard_normal((300, 1, 1, 480), dtype=np.float32):
    for name, run in runs.items():
        start = time.perf_counter()
        sounds[name].append(run(piece).tobytes())
        times[name].append(time.perf_counter() - start)
print(*(f"{name} {1e3 * np.median(times[name]):.2f} ms for 10 ms" for name in runs), sep="\n")
print("same bits:", sounds["C"] == sounds["streams in Python"])
