"""A causal U-Net of an audio signal, 10 ms at a time: the bits of the whole signal, at once.

Run: python examples/audio_in_pieces.py

    python examples/audio_in_pieces.py --seconds 10 --piece 480

Weights are random. Every layer is a `winogen.Conv1d` with padding="causal", and its stream keeps
the samples that its next outputs will see; pieces may have any length. With torch the same net
runs beside it, with a state that is kept by hand. Works without torch, too.
"""

import argparse
import time

import numpy as np

import winogen

try:
    import torch
except ImportError:
    torch = None

RATE = 48_000
LAYERS = {  # filters, channels, taps, stride, dilation, activation
    "first": (24, 1, 15, 1, 1, "relu"),
    "down": (48, 24, 5, 2, 1, "relu"),
    "deep": (96, 48, 5, 2, 1, "relu"),
    "context": (96, 96, 3, 1, 4, "relu"),
    "up": (48, 96, 3, 1, 1, "relu"),
    "last": (24, 48, 3, 1, 1, "relu"),
    "sound": (1, 24, 3, 1, 1, "tanh"),
}


class Twice:
    """Every sample twice; what is not asked for yet waits."""

    def __init__(self, channels: int) -> None:
        self.waiting = np.zeros((1, channels, 0), np.float32)

    def __call__(self, x: np.ndarray, count: int) -> np.ndarray:
        joined = np.concatenate([self.waiting, np.repeat(x, 2, 2)], 2)
        self.waiting = joined[:, :, count:]
        return joined[:, :, :count]


class Net:
    """The U-Net, of functions that apply its layers: ``layers[name](x, add_after=skipped)``."""

    def __init__(self, layers: dict) -> None:
        self.layers, self.to_half, self.to_whole = layers, Twice(96), Twice(48)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        run = self.layers
        whole = run["first"](x)
        half = run["down"](whole)
        quarter = run["deep"](half)
        quarter = run["context"](quarter, add_after=quarter)
        half = run["up"](self.to_half(quarter, half.shape[2]), add_after=half)
        whole = run["last"](self.to_whole(half, whole.shape[2]), add_after=whole)
        return run["sound"](whole)


class TorchStream:
    """A causal layer of torch, whose state is kept by hand."""

    def __init__(self, name: str, weight: np.ndarray) -> None:
        _, channels, taps, self.stride, self.dilation, self.activation = LAYERS[name]
        self.weight, self.reach = torch.from_numpy(weight), (taps - 1) * self.dilation + 1
        self.held = torch.zeros(1, channels, self.reach - 1)

    def __call__(self, x: np.ndarray, add_after: np.ndarray | None = None) -> np.ndarray:
        x = torch.cat([self.held, torch.from_numpy(np.ascontiguousarray(x))], 2)
        outputs = (x.shape[2] - self.reach) // self.stride + 1
        self.held = x[:, :, outputs * self.stride :].clone()
        y = torch.nn.functional.conv1d(x, self.weight, None, self.stride, 0, self.dilation)
        y = getattr(torch, self.activation)(y).numpy()
        return y if add_after is None else y + add_after


def peak_memory(reset: bool = False) -> float:
    """The most memory that this process used since the last reset, in MB; 0 where unknown."""
    try:
        if reset:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1000
    except OSError:
        return 0.0


def timed(name: str, net: Net, pieces: list, state: int) -> np.ndarray:
    """Run a net over pieces, and print how long they take."""
    before, seconds, made = peak_memory(reset=True), [], []
    for piece in pieces:
        start = time.perf_counter()
        made.append(net(piece))
        seconds.append(time.perf_counter() - start)
    usual, worst = np.median(seconds) * 1e3, np.quantile(seconds, 0.99) * 1e3
    of = pieces[0].shape[2] / RATE * 1e3
    memory = f"{peak_memory() - before:.1f} MB more at most" + f", state {state:,} bytes" * (
        state > 0
    )
    print(f"{name:12} {usual:8.2f} ms ({worst:.2f} in one of a hundred) for {of:.0f} ms; {memory}")
    return np.concatenate(made, 2)


parser = argparse.ArgumentParser(description="A causal U-Net of an audio signal, piece by piece.")
parser.add_argument("--seconds", type=float, default=2.0)
parser.add_argument("--piece", type=int, default=480, help="samples at a time")
options = parser.parse_args()

rng = np.random.default_rng(0)
signal = rng.standard_normal((1, 1, int(options.seconds * RATE)), dtype=np.float32)
weights, layers = {}, {}
for name, (filters, channels, taps, stride, dilation, activation) in LAYERS.items():
    w = rng.standard_normal((filters, channels, taps), dtype=np.float32)
    weights[name] = w / np.float32((channels * taps) ** 0.5)
    layers[name] = winogen.Conv1d(
        weights[name], None, stride, "causal", dilation, activation=activation, algorithm="direct"
    )

pieces = np.split(signal, range(options.piece, signal.shape[2], options.piece), 2)
streams = {name: layer.stream() for name, layer in layers.items()}
Net({name: layer.stream() for name, layer in layers.items()})(pieces[0])  # kernels are compiled
by_pieces = timed("winogen", Net(streams), pieces, sum(s.state_bytes for s in streams.values()))

net = Net({name: layer.stream() for name, layer in layers.items()})
cuts = np.sort(rng.integers(0, signal.shape[2], 40))
at_random = np.concatenate([net(piece) for piece in np.split(signal, cuts, 2)], 2)
if torch is not None:
    beside = Net({name: TorchStream(name, w) for name, w in weights.items()})
    beside(pieces[0])
    beside = Net({name: TorchStream(name, w) for name, w in weights.items()})
    state = sum(layer.held.nbytes for layer in beside.layers.values())
    with torch.inference_mode():
        theirs = timed("torch", beside, pieces, state)
    print(f"torch differs by {np.abs(by_pieces - theirs).max():.1e} at most")

whole = timed("winogen, all", Net(layers), [signal], 0)
equal = by_pieces.tobytes() == at_random.tobytes() == whole.tobytes()
print(f"in pieces, cut at random, whole: {'the same bits' if equal else 'other bits'}")
