"""What `output_tolerance` of `winogen.torch.optimize` gains, and whether what it promises holds.

    python scripts/output_errors.py                      # four nets
    python scripts/output_errors.py resnet18 --inputs 20 --tolerances 5e-3,1.5e-2

Each net has the random weights of `winogen bench`. Times are medians of calls in turns with the net
optimized without a tolerance, on one thread; errors are the worst of inputs that `optimize` has not
seen, normal random numbers: |y - y64| / |y64|. Exit status 1: a promise that does not hold.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
from functools import partial

import torch

import winogen.torch
from winogen.errors import InvalidValue
from winogen.tasks.turns import clock_of, in_turns
from winogen.toolchain.machine_file import cpu_name
from winogen_lab.nets import NETS
from winogen_lab.nets.blocks import fill

USUAL = ("resnet18", "unet", "vgg16", "dncnn")
TOLERANCES = "1e-6,1e-4,1e-3"


def worst(
    models: list[torch.nn.Module], double: torch.nn.Module, shape: tuple[int, ...], inputs: int
) -> list[float]:
    """Return the largest error of each model on so many inputs."""
    generator, errors = torch.Generator().manual_seed(12345), [0.0] * len(models)
    for _ in range(inputs):
        x = torch.randn(shape, generator=generator)
        exact = double(x.double())
        for place, model in enumerate(models):
            off = float((model(x).double() - exact).norm() / exact.norm())
            errors[place] = max(errors[place], off)
    return errors


def measured(
    name: str, tolerances: list[float], inputs: int, rounds: int, seconds: float | None
) -> bool:
    """Print the lines of a net; return whether all promises hold."""
    net = NETS[name]
    model, x = net.module(), torch.randn(net.input, generator=torch.Generator().manual_seed(1))
    if not net.is_trained:
        fill(model, x, 0)
    usual = winogen.torch.optimize(model, x, seconds=seconds)
    made, asked = [], []
    for tolerance in tolerances:
        try:
            made.append(
                winogen.torch.optimize(model, x, output_tolerance=tolerance, seconds=seconds)
            )
            asked.append(tolerance)
        except InvalidValue as refusal:  # float32 itself is further off
            print(f"{name}, {tolerance:g}: {refusal}", flush=True)
    with torch.inference_mode():
        calls = [partial(one, x) for one in (usual, *made)]
        turns = in_turns(calls, clock_of(1), (rounds + 2, rounds + 2))
        times = [1e3 * statistics.median(some[2:]) for some in turns]
        errors = worst([model, usual, *made], copy.deepcopy(model).double(), net.input, inputs)
    print(f"{name}, no tolerance: {times[0]:.1f} ms, error {errors[1]:.1e}, torch {errors[0]:.1e}")
    for tolerance, one, ms, error in zip(asked, made, times[1:], errors[2:]):
        told = winogen.torch.report(one).promise
        seen = f"predicted {told.predicted:.1e}, measured {told.measured:.1e}, " if told else ""
        gain = f"{ms:.1f} ms, {times[0] / ms:.2f} times as fast"
        print(f"{name}, {tolerance:g}: {gain}; {seen}{error:.1e} on {inputs} others", flush=True)
    return all(error <= tolerance for tolerance, error in zip(asked, errors[2:]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="*", default=USUAL, help=f"of {', '.join(NETS)}")
    parser.add_argument("--tolerances", default=TOLERANCES, help=f"of the output ({TOLERANCES})")
    parser.add_argument("--inputs", type=int, default=100, help="that nobody has seen (100)")
    parser.add_argument("--rounds", type=int, default=11, help="calls of each model (11)")
    parser.add_argument("--seconds", type=float, default=None, help="limit of optimize (none)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(cpu_name(), flush=True)
    how = (
        [float(one) for one in given.tolerances.split(",")],
        given.inputs,
        given.rounds,
        given.seconds,
    )
    return int(False in [measured(name, *how) for name in given.nets])


if __name__ == "__main__":
    sys.exit(main())
