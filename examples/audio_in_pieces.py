"""A causal U-Net of an audio signal, 10 ms at a time: the bits of the whole signal, at once.

Run: python examples/audio_in_pieces.py 2

Weights are random. With torch the same net runs beside it, with a state that is kept by hand.
"""

import resource
import sys
import time

import numpy as np

import winogen

try:
    import torch
except ImportError:
    torch = None

RATE = 48_000
LAYERS = {  # filters, channels, taps, stride, dilation
    "first": (24, 1, 15, 1, 1), "down": (48, 24, 5, 2, 1), "deep": (96, 48, 5, 2, 1),
    "context": (96, 96, 3, 1, 4), "up": (48, 96, 3, 1, 1), "last": (24, 48, 3, 1, 1),
    "sound": (1, 24, 3, 1, 1),
}  # fmt: skip


class Net:
    """The U-Net, of functions that apply its layers: ``layers[name](x, add_after=skipped)``."""

    def __init__(self, layers: dict) -> None:
        self.layers = layers
        self.waiting = {name: np.zeros((1, LAYERS[name][1], 0), np.float32) for name in layers}

    def wider(self, name: str, x: np.ndarray, skipped: np.ndarray) -> np.ndarray:
        """A layer of every sample twice, and what is skipped; samples too early for it wait."""
        joined = np.concatenate([self.waiting[name], np.repeat(x, 2, 2)], 2)
        x, self.waiting[name] = np.split(joined, [skipped.shape[2]], 2)
        return self.layers[name](x, add_after=skipped)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        whole = self.layers["first"](x)
        half = self.layers["down"](whole)
        quarter = self.layers["deep"](half)
        quarter = self.layers["context"](quarter, add_after=quarter)
        return self.layers["sound"](self.wider("last", self.wider("up", quarter, half), whole))


class TorchStream:
    """A causal layer of torch, whose state is kept by hand."""

    def __init__(self, weight: np.ndarray, stride: int, dilation: int) -> None:
        self.weight, self.options = torch.from_numpy(weight), (None, stride, 0, dilation)
        self.reach, self.stride = (weight.shape[2] - 1) * dilation + 1, stride
        self.held = torch.zeros(1, weight.shape[1], self.reach - 1)

    def __call__(self, x: np.ndarray, add_after: np.ndarray | None = None) -> np.ndarray:
        x = torch.cat([self.held, torch.from_numpy(np.ascontiguousarray(x))], 2)
        self.held = x[:, :, ((x.shape[2] - self.reach) // self.stride + 1) * self.stride :].clone()
        y = torch.nn.functional.conv1d(x, self.weight, *self.options).relu().numpy()
        return y if add_after is None else y + add_after


def run(net: Net, pieces: list) -> tuple[np.ndarray, list, float]:
    """The sound, the milliseconds of each piece, and the memory in MB that it took beyond."""
    before, times, made = peak(), [], []
    for piece in pieces:
        start = time.perf_counter()
        made.append(net(piece))
        times.append((time.perf_counter() - start) * 1e3)
    return np.concatenate(made, 2), times, peak() - before


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


rng, count = np.random.default_rng(0), int(float([*sys.argv, 2][1]) * RATE)
signal = rng.standard_normal((1, 1, count), dtype=np.float32)
pieces = np.split(signal, range(RATE // 100, count, RATE // 100), 2)
layers, by_torch = {}, {}
for name, (filters, channels, taps, stride, dilation) in LAYERS.items():
    w = rng.standard_normal((filters, channels, taps), dtype=np.float32) / (channels * taps) ** 0.5
    options = {"padding": "causal", "activation": "relu", "algorithm": "direct"}
    layers[name] = winogen.Conv1d(w, stride=stride, dilation=dilation, **options)
    by_torch[name] = w, stride, dilation
nets = {"winogen": lambda: Net({name: layer.stream() for name, layer in layers.items()})}
if torch is not None:
    nets["torch"] = lambda: Net({name: TorchStream(*one) for name, one in by_torch.items()})
runs = [{name: run(net(), pieces) for name, net in nets.items()} for _ in range(4)]  # in turns
for name in nets:
    usual = np.median([one[name][1] for one in runs[1:]])
    print(f"{name} {usual:.2f} ms for 10 ms, {runs[0][name][2]:.0f} MB more")
sound, (whole, (usual,), memory) = runs[0]["winogen"][0], run(Net(layers), [signal])
print(f"winogen, the whole at once: {usual:.0f} ms, {memory:.0f} MB more")
cuts = np.sort(rng.integers(0, count, 40))
at_random = np.concatenate(list(map(nets["winogen"](), np.split(signal, cuts, 2))), 2)
print("same bits:", sound.tobytes() == at_random.tobytes() == whole.tobytes())
assert "torch" not in nets or np.abs(runs[0]["torch"][0] - whole).max() < 1e-5
