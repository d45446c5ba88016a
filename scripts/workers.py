"""What the workers of a server cost that each optimize the same model: processor time and memory.

    python scripts/workers.py unet rrdb resnet50
    python scripts/workers.py vgg16 --forked

Each net begins with an empty cache folder. The first process compiles, measures and compares; later
ones find that done. Their seconds of processor time stand beside what nothing saves: importing
torch, and packing weights. ``--at-once`` starts all workers with an empty folder instead. With
``--forked`` workers are children of a process that has optimized the model, and their memory stands
beside that of separate ones. All results are compared bit by bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_ARGUMENT = "--one"


def seconds() -> float:
    """Processor time of this process and of the compilers that it has started."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def megabytes() -> float:
    """Memory of this process, what it shares with others in equal parts."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:") / 1e3


def one(name: str, threads: int, forked: int) -> dict[str, Any]:
    """Return what a worker for a net costs, and the memory of children if any are ``forked``."""
    import torch

    import winogen.torch
    from winogen.graph.steps import Bound
    from winogen_lab.nets import NETS

    imported = seconds()
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    net = NETS[name]
    model, x = net.module(), torch.randn(net.input)
    begin = seconds()
    fast = winogen.torch.optimize(model, x, seconds=None)
    with torch.inference_mode():
        y = fast(x)
    ready = seconds() - begin
    digest = hashlib.sha256(y.numpy().tobytes()).hexdigest()
    found = {"imported": imported, "ready": ready, "digest": digest, "forked": []}
    found["memory"] = megabytes()
    if forked:
        found["forked"] = children(forked, fast, x)
    body = fast.winogen_fast and fast.winogen_fast.body
    begin = seconds()
    for module in body.modules() if body else ():
        segment = getattr(module, "segment", None)
        for bound in list(segment._bound.values()) if segment else ():
            Bound(bound.planned, {})
    return {**found, "packing": seconds() - begin}


def children(count: int, fast: Any, x: Any) -> list[float]:
    """Return the memory of forked workers that all run, and of their parent."""
    import torch

    pipes = []
    for _ in range(count):
        end, begin = os.pipe()
        if not os.fork():
            with torch.inference_mode():
                fast(x)
            os.write(begin, b"ready")
            time.sleep(2)  # until all of them have run
            os.write(begin, json.dumps(megabytes()).encode())
            time.sleep(2)
            os._exit(0)
        os.close(begin)
        pipes.append(end)
    for end in pipes:
        os.read(end, 5)
    found = [float(os.read(end, 99)) for end in pipes]
    found.append(megabytes())
    for _ in pipes:
        os.wait()
    return found


def started(name: str, cache: str, threads: int, forked: int = 0) -> subprocess.Popen[str]:
    """Return a worker that was begun."""
    call = [sys.executable, __file__, _ARGUMENT, name, str(threads), str(forked)]
    environment = os.environ | {"WINOGEN_CACHE": cache, "PYTHONHASHSEED": "random"}
    return subprocess.Popen(
        call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def ended(*workers: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Return what workers have found; raises ValueError if their results differ."""
    texts = [worker.communicate()[0].splitlines() for worker in workers]
    if any(worker.returncode for worker in workers):
        raise ValueError("a worker failed")
    return [json.loads(lines[-1]) for lines in texts]


def main() -> None:
    """Print a line for each net."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("nets", nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--at-once", action="store_true")
    parser.add_argument("--forked", action="store_true")
    given = parser.parse_args()
    for name in given.nets:
        with TemporaryDirectory() as cache:
            if given.at_once:
                begin = time.perf_counter()
                every = ended(*(started(name, cache, given.threads) for _ in range(given.workers)))
                wall = time.perf_counter() - begin
                ready = ", ".join(f"{one['ready']:.1f}" for one in every)
                print(f"{name}: {given.workers} at once in {wall:.0f} s; CPU {ready} s")
            else:
                every = [ended(started(name, cache, given.threads))[0] for _ in range(2)]
                last = given.workers if given.forked else 0
                every += ended(started(name, cache, given.threads, last))
                first, _, later = every
                least = later["imported"] + later["packing"]
                whole = later["imported"] + later["ready"]
                print(
                    f"{name}: optimize and a call: first {first['ready']:.1f} s, later "
                    f"{later['ready']:.2f} s; with imports {whole:.2f} s, {whole / least:.2f} x "
                    f"imports {later['imported']:.2f} s and packing {later['packing']:.2f} s"
                )
                if given.forked:
                    *workers, parent = later["forked"]
                    print(
                        f"{name}: memory of a process {later['memory']:.0f} MB; forked: "
                        f"{', '.join(f'{one:.0f}' for one in workers)}, their parent {parent:.0f}"
                    )
        same = len({one["digest"] for one in every}) == 1
        print(f"{name}: {'the same bits' if same else 'NOT the same bits'}", flush=True)


if __name__ == "__main__":
    if _ARGUMENT in sys.argv:
        place = sys.argv.index(_ARGUMENT)
        name, *numbers = sys.argv[place + 1 :]
        print(json.dumps(one(name, *map(int, numbers))))
    else:
        main()
