"""A model of PyTorch and its faster twin, in turns, for programs that show what one gains."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def beside_torch(model: Any, example: Any, use: Callable[[Any], np.ndarray], turns: int = 3) -> Any:
    """Make a model faster, and print what torch and winogen take: seconds and memory.

    ``model``: in eval mode; torch runs it in channels_last. ``example``: a tensor that it is made
    faster for. ``use``: does the whole work with a model, and returns an array. Returns the array
    that the faster model made, and prints how far it is from torch's.
    """
    import torch

    from winogen.torch import optimize

    layout = torch.channels_last if example.ndim == 4 else torch.channels_last_3d
    begin = time.perf_counter()
    faster = optimize(model, example)
    print(f"made faster in {time.perf_counter() - begin:.0f} s")
    ways = {"winogen": faster, "torch": model.to(memory_format=layout)}
    results: dict[str, np.ndarray] = {}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(turns + 1):
        for name, way in ways.items():
            held, begin = _held("VmRSS"), time.perf_counter()
            with torch.inference_mode():
                results[name] = use(way)
            if turn:  # by then kernels are compiled and weights are packed
                seconds[name].append(time.perf_counter() - begin)
            if turn == turns and held:
                print(f"{name:<8} {_held('VmHWM') - held:.0f} MB for all that a run makes")
    usual = {name: statistics.median(some) for name, some in seconds.items()}
    print(*(f"{name:<8} {usual[name]:.3f} s" for name in ways), sep="\n")
    print(f"{usual['torch'] / usual['winogen']:.2f} times as fast")
    largest = np.abs(results["torch"]).max()
    print(f"largest difference {np.abs(results['winogen'] - results['torch']).max() / largest:.0e}")
    return results["winogen"]


def _held(what: str) -> float:
    """MB of this process's memory, now or at most since the last VmRSS; 0 where Linux is not."""
    try:
        if what == "VmRSS":
            ctypes.CDLL(None).malloc_trim(0)  # what others have freed is not held
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
    except (OSError, AttributeError):
        return 0
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))
