#!/usr/bin/env python3
"""Seconds to the first results of a wheel where there is no compiler, each in new processes.

    python scripts/start_figures.py dist/winogen-….whl [--times 5] [--nets]

The wheel gets an environment of its own, with numpy, torch and onnxruntime of the Python that runs
this. There is no program on the path, and every process begins with an empty cache. ``--nets``
rewrites ResNet-50 by torch and by ONNX, too. Results are compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from venv import EnvBuilder

_IMPORT = """
import time, numpy
begin = time.perf_counter()
from winogen import conv2d
show(time.perf_counter() - begin)
"""
# Seconds since the process was started, the start of Python among them.
_CALLS = """
import time, numpy as np
from winogen import conv2d
for size, channels, filters in {layers}:
    x = np.ones((1, channels, size, size), np.float32)
    y = conv2d(x, np.ones((filters, channels, 3, 3), np.float32), padding=1)
    assert abs(y[0, 0, 1, 1] / (9 * channels) - 1) < 1e-5
show(time.monotonic() - started)
"""
_UNPACK = """
import time
from winogen.toolchain import prebuilt
seconds = []
for target in {targets}:
    for archive in prebuilt.archives(target):
        for entry in archive.entries.values():
            ticks = [time.perf_counter()]
            for _ in range(3):  # the fastest: what is not unpacking does not count
                archive.block(entry.block)
                ticks.append(time.perf_counter())
            seconds.append(min(end - begin for begin, end in zip(ticks, ticks[1:])))
seconds.sort()
show(seconds[len(seconds) // 2], seconds[-1])
"""
_NET = f"""
import time, warnings, numpy as np, torch
sys.path.append({str(Path(__file__).resolve().parents[1] / "lab")!r})
import winogen.torch, winogen.onnx
from winogen_lab.nets import NETS
warnings.simplefilter("ignore")
torch.manual_seed(0)
torch.set_num_threads(1)
net = NETS["resnet50"]
model, x = net.module(), torch.randn(net.input)
with torch.inference_mode():
    y = model(x).numpy()
"""
_TORCH = """
begin = time.perf_counter()
fast = winogen.torch.optimize(model, x, threads=1)
seconds = time.perf_counter() - begin
with torch.inference_mode():
    close(fast(x).numpy(), y)
show(seconds)
"""
_ONNX = """
import onnx, onnxruntime
torch.onnx.export(model, (x,), "net.onnx", dynamo=False, input_names=["x"], output_names=["y"])
model = onnx.load("net.onnx")
begin = time.perf_counter()
fast = winogen.onnx.optimize(model, threads=1)
seconds = time.perf_counter() - begin
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(winogen.onnx.get_library_path())
session = onnxruntime.InferenceSession(fast.SerializeToString(), options)
close(session.run(None, {"x": x.numpy()})[0], y)
show(seconds)
"""
_BEGIN = """
import json, sys
started = float(sys.argv[1])
def show(*seconds):
    print(json.dumps(seconds))
def close(y, expected):
    assert abs(y - expected).max() < 1e-4 * abs(expected).max()
"""
_VGG16 = (
    *((224, 3, 64), (224, 64, 64), (112, 64, 128), (112, 128, 128)),
    *((56, 128, 256), (56, 256, 256), (56, 256, 256)),
    *((28, 256, 512), (28, 512, 512), (28, 512, 512), *[(14, 512, 512)] * 3),
)
_TARGETS = "avx512", "avx2", "sse2", "generic"
# What is printed, what it should be at most, and the program.
_START = (
    ("import beyond numpy's", 0.15, _IMPORT),
    ("first result, 56x56x64-64", 1.0, _CALLS.format(layers=[(56, 64, 64)])),
    ("VGG-16's 13 layers", 2.0, _CALLS.format(layers=_VGG16)),
    ("unpacking a kernel: median, worst", 0.02, _UNPACK.format(targets=_TARGETS)),
)
_NETS = (
    ("ResNet-50, winogen.torch.optimize", 10.0, _NET + _TORCH),
    ("ResNet-50, winogen.onnx.optimize", 10.0, _NET + _ONNX),
)


def environment(wheel: Path, folder: Path) -> Path:
    """Return the Python of a new environment that has the wheel."""
    EnvBuilder(symlinks=True).create(folder)
    site = Path(sysconfig.get_path("purelib", "posix_prefix", {"base": str(folder)}))
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]
    subprocess.run([sys.executable, "-m", "pip", *install, str(site), str(wheel)], check=True)
    # All else is of the Python that runs this; its winogen would come later.
    (site / "others.pth").write_text("\n".join({sysconfig.get_path(n) for n in _SITES}))
    return folder / "bin" / "python"


_SITES = "purelib", "platlib"


def seconds_of(python: Path, program: str) -> list[float]:
    """Return what a program shows, run where nothing is found."""
    with TemporaryDirectory() as folder:
        variables = {
            "PATH": f"{folder}/nothing",
            "HOME": folder,
            "WINOGEN_CACHE": f"{folder}/cache",
            "OMP_NUM_THREADS": "1",
        }
        command = [str(python), "-c", _BEGIN + program, str(time.monotonic())]
        done = subprocess.run(
            command, check=False, cwd=folder, env=variables, capture_output=True, text=True
        )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    shown: list[float] = json.loads(done.stdout.splitlines()[-1])
    return shown


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--times", type=int, default=5, help="processes; the median is printed")
    parser.add_argument("--nets", action="store_true")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        python = environment(given.wheel.resolve(), Path(folder))
        print(f"{'seconds':36} at most   measured")
        for what, most, program in _START + _NETS * given.nets:
            runs = [seconds_of(python, program) for _ in range(given.times)]
            found = "  ".join(f"{median(some):.3f}" for some in zip(*runs))
            print(f"{what:36} {most:7g}   {found}", flush=True)


if __name__ == "__main__":
    main()
