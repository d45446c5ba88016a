"""Seconds until `winogen.torch.optimize` has a network ready, each time in a new process.

    python scripts/first_result.py unet resnet50

With an empty cache, and again with what that left there. And the first call of a size that only the
first process knew, beyond a later call: its kernels are there, its plan and its filters are not.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

_ARGUMENT = "--one"


def one(name: str, threads: int) -> dict[str, float]:
    """Return the seconds of a net in this process, whose cache is empty or full."""
    import torch

    import winogen.torch
    from winogen_lab.nets import NETS

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    net = NETS[name]
    model, x = net.module(), torch.randn(net.input)
    batch, channels, height, width = net.input
    other = torch.randn(batch, channels, height + 32, width + 32)
    seconds = [time.perf_counter()]
    fast = winogen.torch.optimize(model, x)
    seconds.append(time.perf_counter())
    compilers = resource.getrusage(resource.RUSAGE_CHILDREN)
    with torch.inference_mode():
        for _ in range(4):
            fast(other)
            seconds.append(time.perf_counter())
    made, first, *later = (end - begin for begin, end in pairwise(seconds))
    cpu = compilers.ru_utime + compilers.ru_stime
    return {"made": made, "compilers": cpu, "first": first - min(later), "later": min(later)}


def main() -> None:
    """Print a line for each net."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("nets", nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    print("seconds    cold | CPU of compilers | warm | another size, first call beyond a later one")
    for name in given.nets:
        with TemporaryDirectory() as cache:
            # A call of a new size waits for its kernels, so that the next process has them.
            places = {"WINOGEN_CACHE": str(Path(cache, "winogen")), "WINOGEN_COMPILE": "missing"}
            call = [sys.executable, __file__, _ARGUMENT, name, str(given.threads)]
            cold, warm = (
                json.loads(
                    subprocess.run(
                        call, env=os.environ | places, stdout=subprocess.PIPE, check=True, text=True
                    ).stdout.splitlines()[-1]
                )
                for _ in range(2)
            )
        print(
            f"{name:9} {cold['made']:5.1f} | {cold['compilers']:16.1f} | {warm['made']:4.1f} | "
            f"{warm['first']:.2f} beyond {warm['later']:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    if _ARGUMENT in sys.argv:
        place = sys.argv.index(_ARGUMENT)
        print(json.dumps(one(sys.argv[place + 1], int(sys.argv[place + 2]))))
    else:
        main()
