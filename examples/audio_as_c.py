"""A causal U-Net of an audio signal as C that keeps its state: 10 ms a call, the bits of streams.

Run: python examples/audio_as_c.py

Needs torch, onnx and onnxruntime. `winogen generate sound.onnx --pieces 480 -o sound` writes the
same folder. Beside the C the same layers run in Python, as in audio_in_pieces.py.
"""

import ctypes
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import winogen
from winogen.network import generate

try:
    import onnx  # noqa: F401
    import torch
    from torch.nn import functional
except ImportError as missing:
    sys.exit(f"{missing.name}: cannot be imported; install it by pip install '.[torch,onnx]'")

PIECE = 480  # 10 ms of 48 kHz
LAYERS = {  # channels, filters, taps, stride, dilation
    "first": (1, 24, 15, 1, 1), "down": (24, 48, 5, 2, 1), "deep": (48, 96, 5, 2, 1),
    "context": (96, 96, 3, 1, 4), "up": (96, 48, 3, 1, 1), "last": (48, 24, 3, 1, 1),
    "sound": (24, 1, 3, 1, 1),
}  # fmt: skip


class UNet(torch.nn.Module):
    """Layers padded before the signal alone, two of them with a stride, and three skips."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleDict(
            {name: torch.nn.Conv1d(*sizes[:4], dilation=sizes[4], bias=False)
             for name, sizes in LAYERS.items()}
        )  # fmt: skip

    def layer(self, name: str, x: torch.Tensor) -> torch.Tensor:
        _, _, taps, _, dilation = LAYERS[name]
        return self.layers[name](functional.pad(x, ((taps - 1) * dilation, 0))).relu()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = self.layer("first", x)
        half = self.layer("down", whole)
        quarter = self.layer("deep", half)
        quarter = self.layer("context", quarter) + quarter
        half = self.layer("up", functional.interpolate(quarter, scale_factor=2.0)) + half
        return self.layer(
            "sound", self.layer("last", functional.interpolate(half, scale_factor=2.0)) + whole
        )


class Streams:
    """The same network in Python: each layer a stream of winogen."""

    def __init__(self, net: UNet) -> None:
        self.streams = {}
        for name, (_, _, _, stride, dilation) in LAYERS.items():
            options = {"stride": stride, "dilation": dilation, "activation": "relu", "threads": 1}
            weight = net.layers[name].weight.detach().numpy()
            self.streams[name] = winogen.Conv1d(weight, padding="causal", **options).stream()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        run = self.streams
        whole = run["first"](x)
        half = run["down"](whole)
        quarter = run["deep"](half)
        quarter = run["context"](quarter, add_after=quarter)
        half = run["up"](np.repeat(quarter, 2, 2), add_after=half)
        return run["sound"](run["last"](np.repeat(half, 2, 2), add_after=whole))


class InC:
    """The folder as a library, its arena, and the state of one signal."""

    def __init__(self, folder: Path) -> None:
        sources = [str(path) for path in folder.glob("*.c") if path.name != "sound_test.c"]
        made = folder.resolve() / "sound.so"
        words = ["cc", "-O3", "-ffp-contract=fast", "-shared", "-fPIC", "-o", str(made)]
        subprocess.run([*words, *sources, "-lm"], check=True)
        self.library = ctypes.CDLL(str(made))
        header = (folder / "sound.h").read_text("utf-8").split()
        sizes = (header[header.index(f"SOUND_{what}_BYTES") + 1] for what in ("ARENA", "STATE"))
        self.arena, self.state = (np.empty(int(size) + 64, np.uint8) for size in sizes)
        self.arena = self.arena[-self.arena.ctypes.data % 64 :]
        self.library.sound_reset(pointer(self.state))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        x, y = np.ascontiguousarray(x), np.empty_like(x)
        self.library.sound_run(*map(pointer, (x, y, self.state, self.arena)))
        return y


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


torch.manual_seed(0)
net = UNet().eval()
torch.onnx.export(
    net, (torch.zeros(1, 1, 4 * PIECE),), "sound.onnx", input_names=["x"], output_names=["y"],
    opset_version=17, dynamo=False,
)  # fmt: skip
files = generate("sound.onnx", name="sound", pieces=PIECE)
files.write("sound")
print(files)
tested = subprocess.run(["make", "-s", "test"], cwd="sound", text=True, stdout=-1, check=True)
print(tested.stdout.strip())

signal = np.random.default_rng(0).standard_normal((1, 1, 100 * PIECE), dtype=np.float32)
with torch.no_grad():
    wanted = net(torch.from_numpy(signal)).numpy()
pieces, times, sounds = np.split(signal, 100, 2), {}, {}
for _ in range(3):  # in turns
    for name, begun in (("C", InC(Path("sound"))), ("streams in Python", Streams(net))):
        made = []
        for piece in pieces:
            start = time.perf_counter()
            made.append(begun(piece))
            times.setdefault(name, []).append((time.perf_counter() - start) * 1e3)
        sounds[name] = np.concatenate(made, 2)
for name, all_times in times.items():
    print(f"{name} {np.median(all_times):.2f} ms for 10 ms")
in_c, streamed = sounds.values()
print("same bits:", in_c.tobytes() == streamed.tobytes())
assert np.abs(in_c - wanted).max() < 1e-5 * np.abs(wanted).max()
