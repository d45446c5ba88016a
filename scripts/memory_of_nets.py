"""Resident memory of networks by torch and by `winogen.torch.optimize`, beyond the imports.

    python scripts/memory_of_nets.py resnet50 unet --memory-limit 0

Each net runs in two processes, one for torch and one for winogen, whose original is deleted. Linux.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_ARGUMENT = "--one"


def resident(what: str = "VmRSS") -> int:
    """Return the bytes of this process that are in memory; the largest since the last reset."""
    found = re.search(rf"{what}:\s+(\d+)", _STATUS.read_text())
    return int(found[1]) << 10 if found else 0


def one(name: str, options: dict[str, Any] | None) -> dict[str, int]:
    """Return the bytes of a net in this process; ``options`` None: as torch runs it."""
    import torch

    import winogen.torch
    from winogen_lab.nets import NETS

    torch.set_num_threads(1)
    imports = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).eval()
    example = torch.randn(1, 3, 16, 16)
    with torch.inference_mode():
        imports(example)
    winogen.torch.optimize(imports, example)
    gc.collect()
    before = resident()
    net = NETS[name]
    model, x = net.module(), torch.randn(net.input)
    weights = sum(t.numel() * t.element_size() for t in model.state_dict().values())
    if options is not None:
        model = winogen.torch.optimize(model, x, threads=1, **options)
    gc.collect()
    _RESET.write_text("5")  # a new peak begins
    with torch.inference_mode():
        for _ in range(3):
            model(x)
    packed = 0 if options is None else winogen.torch.report(model).packed_bytes
    figures = {"weights": weights, "packed": packed, "peak": resident("VmHWM") - before}
    return figures | {"resident": resident() - before}


def main() -> None:
    """Print a line for each net."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("nets", nargs="+")
    parser.add_argument("--memory-limit", type=int)
    parser.add_argument("--release-weights", action="store_true")
    given = parser.parse_args()
    options = {"memory_limit": given.memory_limit}
    if given.release_weights:
        options["release_weights"] = True
    print(
        "MB        weights  packed | torch resident  peak | winogen resident  peak | ratio, bound"
    )
    for name in given.nets:
        figures = []
        for ways in (None, options):
            call = [sys.executable, __file__, _ARGUMENT, name, json.dumps(ways)]
            out = subprocess.run(call, stdout=subprocess.PIPE, check=True, text=True).stdout
            figures.append(json.loads(out.splitlines()[-1]))
        torch, ours = figures
        activations = torch["resident"] - torch["weights"]
        bound = 4 * torch["weights"] + 1.2 * activations
        if given.memory_limit == 0:
            bound = 1.2 * torch["resident"]
        values = [torch["weights"], ours["packed"], torch["resident"], torch["peak"]]
        values += [ours["resident"], ours["peak"]]
        w, p, r, m, our, most = (f"{value / 1e6:8.1f}" for value in values)
        ratio = ours["resident"] / torch["resident"]
        said = f"{ratio:.2f}, at most {bound / torch['resident']:.2f}"
        print(f"{name:9} {w} {p} | {r} {m} | {our} {most} | {said}", flush=True)


if __name__ == "__main__":
    if _ARGUMENT in sys.argv:
        place = sys.argv.index(_ARGUMENT)
        print(json.dumps(one(sys.argv[place + 1], json.loads(sys.argv[place + 2]))))
    else:
        main()
