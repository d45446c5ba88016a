"""Seconds until `winogen.torch.optimize` has a model ready, and what its limit of them costs.

    python scripts/time_to_result.py
    python scripts/time_to_result.py rrdb unet --seconds 30 --threads 2

Five nets of usual kinds, each with an empty cache folder in a process of its own: with the limit,
and without any. Beside the time of `optimize` there is its processor time, compilers included, then
the gain over the model as it is, in turns, and calls at another size beside the original's: the
first one, and the median of later ones, while a thread plans and compiles.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_ARGUMENT = "--one"
_LATER = 10  # calls at a new size after its first


# ---- the nets ------------------------------------------------------------------------------------


def _rrdb() -> tuple[Any, Any, Any]:
    """ESRGAN's generator with 4 of its 23 blocks, on a picture of 64x64."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = [(64 + 32 * i, 32 if i < 4 else 64) for i in range(5)]
            self.convs = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in sizes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            parts = [x]
            for conv in self.convs[:4]:
                parts.append(F.leaky_relu(conv(torch.cat(parts, 1)), 0.2))
            return 0.2 * self.convs[4](torch.cat(parts, 1)) + x

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.Sequential(Dense(), Dense(), Dense())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0.2 * self.parts(x) + x

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 64, 3, padding=1)
            self.body = nn.Sequential(*(Block() for _ in range(4)))
            self.trunk, self.up1, self.up2, self.high = (
                nn.Conv2d(64, 64, 3, padding=1) for _ in range(4)
            )
            self.last = nn.Conv2d(64, 3, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x)
            y = y + self.trunk(self.body(y))
            for up in (self.up1, self.up2):
                y = F.leaky_relu(up(F.interpolate(y, scale_factor=2.0, mode="nearest")), 0.2)
            return self.last(F.leaky_relu(self.high(y), 0.2))

    return Net(), torch.randn(1, 3, 64, 64), torch.randn(1, 3, 64, 80)


def _unet() -> tuple[Any, Any, Any]:
    """A U-Net on ResNet-34, on a picture of 256x256."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    def normed(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs))

    class Basic(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first, self.second = normed(inputs, outputs, 3, stride), normed(outputs, outputs)
            same = stride == 1 and inputs == outputs
            self.short = nn.Identity() if same else normed(inputs, outputs, 1, stride)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(self.second(F.relu(self.first(x))) + self.short(x))

    class Up(nn.Module):
        def __init__(self, inputs: int, skip: int, outputs: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                normed(inputs + skip, outputs), nn.ReLU(), normed(outputs, outputs), nn.ReLU()
            )

        def forward(self, x: torch.Tensor, skip: torch.Tensor | None) -> torch.Tensor:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            return self.body(x if skip is None else torch.cat([x, skip], 1))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(normed(3, 64, 7, 2), nn.ReLU())
            widths, depths = (64, 64, 128, 256, 512), (3, 4, 6, 3)
            self.stages = nn.ModuleList(
                nn.Sequential(
                    *(
                        Basic(widths[i + (j > 0)], widths[i + 1], 2 if i and not j else 1)
                        for j in range(depths[i])
                    )
                )
                for i in range(4)
            )
            skips, sizes = (256, 128, 64, 64, 0), (512, 256, 128, 64, 32, 16)
            self.ups = nn.ModuleList(Up(sizes[i], skips[i], sizes[i + 1]) for i in range(5))
            self.head = nn.Conv2d(16, 1, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen = [self.stem(x)]
            for place, stage in enumerate(self.stages):
                seen.append(stage(seen[-1] if place else F.max_pool2d(seen[-1], 3, 2, 1)))
            y = seen.pop()
            for up in self.ups:
                y = up(y, seen.pop() if seen else None)
            return self.head(y)

    return Net(), torch.randn(1, 3, 256, 256), torch.randn(1, 3, 256, 320)


def _volumes() -> tuple[Any, Any, Any]:
    """A U-Net of volumes, on 64x64x64."""
    import torch
    from torch import nn

    def double(inputs: int, outputs: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            layers += [nn.Conv3d(channels, outputs, 3, padding=1), nn.InstanceNorm3d(outputs)]
            layers += [nn.LeakyReLU(0.1)]
        return nn.Sequential(*layers)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (32, 32, 64, 128, 256)
            pairs = [(1, 32), *pairwise(widths)]
            self.downs = nn.ModuleList(double(*pair) for pair in pairs)
            self.pool = nn.MaxPool3d(2)
            self.ups, self.joins = nn.ModuleList(), nn.ModuleList()
            for small, large in reversed(list(pairwise(widths))):
                self.ups.append(nn.ConvTranspose3d(large, small, 2, stride=2))
                self.joins.append(double(2 * small, small))
            self.head = nn.Conv3d(32, 2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen = []
            for place, down in enumerate(self.downs):
                x = down(self.pool(x) if place else x)
                seen.append(x)
            seen.pop()
            for up, join in zip(self.ups, self.joins):
                x = join(torch.cat([seen.pop(), up(x)], 1))
            return self.head(x)

    return Net(), torch.randn(1, 1, 64, 64, 64), torch.randn(1, 1, 64, 64, 96)


def _detector() -> tuple[Any, Any, Any]:
    """A detector like YOLOv8n, on a picture of 320x320."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
        layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(outputs, eps=1e-3), nn.SiLU())

    class Bottleneck(nn.Module):
        def __init__(self, width: int, adds: bool) -> None:
            super().__init__()
            self.first, self.second, self.adds = conv(width, width), conv(width, width), adds

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.second(self.first(x))
            return x + y if self.adds else y

    class C2f(nn.Module):
        def __init__(self, inputs: int, outputs: int, count: int, adds: bool = False) -> None:
            super().__init__()
            half = outputs // 2
            self.first, self.last = conv(inputs, outputs, 1), conv((2 + count) * half, outputs, 1)
            self.parts = nn.ModuleList(Bottleneck(half, adds) for _ in range(count))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen = list(self.first(x).chunk(2, 1))
            for part in self.parts:
                seen.append(part(seen[-1]))
            return self.last(torch.cat(seen, 1))

    class Pooled(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first, self.last = conv(width, width // 2, 1), conv(2 * width, width, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen = [self.first(x)]
            for _ in range(3):
                seen.append(F.max_pool2d(seen[-1], 5, 1, 2))
            return self.last(torch.cat(seen, 1))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p2 = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), C2f(32, 32, 1, True))
            self.p3 = nn.Sequential(conv(32, 64, 3, 2), C2f(64, 64, 2, True))
            self.p4 = nn.Sequential(conv(64, 128, 3, 2), C2f(128, 128, 2, True))
            self.p5 = nn.Sequential(conv(128, 256, 3, 2), C2f(256, 256, 1, True), Pooled(256))
            self.up4, self.up3 = C2f(384, 128, 1), C2f(192, 64, 1)
            self.down3, self.down4 = conv(64, 64, 3, 2), conv(128, 128, 3, 2)
            self.out4, self.out5 = C2f(192, 128, 1), C2f(384, 256, 1)
            self.heads = nn.ModuleList(
                nn.ModuleList(
                    nn.Sequential(conv(width, inner), conv(inner, inner), nn.Conv2d(inner, out, 1))
                    for inner, out in ((64, 64), (80, 80))
                )
                for width in (64, 128, 256)
            )

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            p3 = self.p3(self.p2(x))
            p4 = self.p4(p3)
            p5 = self.p5(p4)
            u4 = self.up4(torch.cat([F.interpolate(p5, scale_factor=2.0), p4], 1))
            u3 = self.up3(torch.cat([F.interpolate(u4, scale_factor=2.0), p3], 1))
            o4 = self.out4(torch.cat([self.down3(u3), u4], 1))
            o5 = self.out5(torch.cat([self.down4(o4), p5], 1))
            return [
                torch.cat([head(y) for head in heads], 1)
                for heads, y in zip(self.heads, (u3, o4, o5))
            ]

    return Net(), torch.randn(1, 3, 320, 320), torch.randn(1, 3, 320, 416)


def _decoder() -> tuple[Any, Any, Any]:
    """The decoder of SDXL's VAE, on latents of 32x32."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Residual(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.GroupNorm(32, inputs, 1e-6), nn.GroupNorm(32, outputs, 1e-6)
            self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
            self.short = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv1(F.silu(self.norm1(x)))
            return self.short(x) + self.conv2(F.silu(self.norm2(y)))

    class Attention(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(32, width, 1e-6)
            self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm(x).flatten(2).transpose(1, 2).unsqueeze(1)
            y = F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y))
            return x + self.out(y.squeeze(1)).transpose(1, 2).reshape(x.shape)

    class Up(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.conv = nn.Conv2d(width, width, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))

    layers: list[nn.Module] = [nn.Conv2d(4, 4, 1), nn.Conv2d(4, 512, 3, padding=1)]
    layers += [Residual(512, 512), Attention(512), Residual(512, 512)]
    widths = (512, 512, 512, 256, 128)
    for place, (inputs, outputs) in enumerate(pairwise(widths)):
        layers += [Residual(inputs, outputs), Residual(outputs, outputs)]
        layers += [Residual(outputs, outputs), *([Up(outputs)] if place < 3 else [])]
    layers += [nn.GroupNorm(32, 128, 1e-6), nn.SiLU(), nn.Conv2d(128, 3, 3, padding=1)]
    return nn.Sequential(*layers), torch.randn(1, 4, 32, 32), torch.randn(1, 4, 32, 40)


NETS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "rrdb": _rrdb,
    "unet": _unet,
    "volumes": _volumes,
    "detector": _detector,
    "decoder": _decoder,
}


# ---- one process ---------------------------------------------------------------------------------


def one(name: str, seconds: float | None, threads: int, processor: bool) -> dict[str, float]:
    """Return what a process with an empty cache folder measures of a net."""
    import torch

    import winogen.torch
    from winogen.tasks import limit

    if processor:
        limit.clock = _computed
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model, x, other = NETS[name]()
    model.eval()
    with torch.inference_mode():
        run = min(_seconds(model, x) for _ in range(2))
    begin, computed = time.perf_counter(), _computed()
    fast = winogen.torch.optimize(model, x, seconds=seconds)
    taken, computed = time.perf_counter() - begin, _computed() - computed
    rows = winogen.torch.report(fast).rows
    with torch.inference_mode():
        pairs = [(_seconds(model, x), _seconds(fast, x)) for _ in range(3)]
        theirs, ours = map(min, zip(*pairs))
        first, later = _of_new_sizes(model, fast, other, other.shape[-1] - x.shape[-1])
    return {
        "run": run,
        "seconds": taken,
        "computed": computed,
        "gain": theirs / ours,
        "unmeasured": sum("not measured" in row.why for row in rows),
        "first": first,
        "later": later,
    }


def _of_new_sizes(model: Any, fast: Any, x: Any, step: int) -> tuple[float, float]:
    """The first calls at new sizes beside the original's first ones, and later calls, in turns.

    torch makes its own preparations at the first call of a size, whoever makes it. So ours are the
    first at two sizes, and the original's at two others, which have as many columns together.
    """
    import torch

    a, b, c, d = (torch.randn(*x.shape[:-1], x.shape[-1] + step * n) for n in range(4))
    theirs, ours = _seconds(model, b), _seconds(fast, a)
    theirs, ours = theirs + _seconds(model, c), ours + _seconds(fast, d)
    later = []
    for _ in range(_LATER):
        one = _seconds(fast, d)
        later.append(one / _seconds(model, d))
    return ours / theirs, statistics.median(later)


def _seconds(model: Any, x: Any) -> float:
    import torch

    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    begin = clock()
    model(x)
    return clock() - begin


def _computed() -> float:
    """Processor seconds of this process and of compilers that have ended."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(one.ru_utime + one.ru_stime for one in map(resource.getrusage, kinds))


def main() -> None:
    """Print a line for each net."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("nets", nargs="*", default=[], help=", ".join(NETS))
    parser.add_argument("--seconds", type=float, default=30.0, help="the limit")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--processor",
        action="store_true",
        help="count the limit in processor time, compilers included: where others compute, too",
    )
    parser.add_argument("--limited", action="store_true", help="nothing without a limit")
    given = parser.parse_args()
    heads = ("net      ", "a run", "limit", "seconds", "processor", "gain", "layers not measured")
    print(*heads, "first call", "later calls", sep="  ")
    for name in given.nets or NETS:
        for seconds in (given.seconds,) if given.limited else (given.seconds, None):
            with TemporaryDirectory() as cache:
                folder = str(Path(cache, "winogen"))
                task = json.dumps([name, seconds, given.threads, given.processor])
                done = subprocess.run(
                    [sys.executable, __file__, _ARGUMENT, task],
                    env=os.environ | {"WINOGEN_CACHE": folder},
                    stdout=subprocess.PIPE,
                    check=True,
                    text=True,
                )
            found = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{name:9} {found['run']:5.2f} s  {seconds or 'none':>5}  {found['seconds']:7.1f}  "
                f"{found['computed']:9.1f}  {found['gain']:4.2f}  {found['unmeasured']:19}  "
                f"{found['first']:8.2f} x  {found['later']:9.2f} x",
                flush=True,
            )


if __name__ == "__main__":
    if _ARGUMENT in sys.argv:
        print(json.dumps(one(*json.loads(sys.argv[sys.argv.index(_ARGUMENT) + 1]))))
    else:
        main()
