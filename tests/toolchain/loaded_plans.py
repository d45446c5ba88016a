"""What plans cost that are made beside a load, and whether a wrong record is noticed: measured.

    python tests/toolchain/loaded_plans.py                    # plans beside four busy processes
    python tests/toolchain/loaded_plans.py --memory-rate 0.5  # ... and what a wrong record costs
    python tests/toolchain/loaded_plans.py --wrong            # records wrong by four, for real

The machine is measured as the first plan of a process does, in a cache of its own: once as it is
found, and several times beside processes that stream memory and multiply matrices. Layers are
planned for one thread by each record. Where two plans differ, both are run in turns, and the least
CPU time of each counts. As quiet as this machine was to begin with, so good is the comparison: what
spoke against the first measurement is printed.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from winogen.conv import memory, planner
from winogen.conv.execute import Prepared
from winogen.conv.request import Request
from winogen.records import Machine
from winogen.toolchain import host_target, machine, machine_file
from winogen.toolchain.calibrate import ratios
from winogen.tuning.chosen import chosen_layers

FIRST_PLAN = """
from winogen.toolchain import cache_dir, machine, machine_file
machine.current()
print(machine_file.file_in(cache_dir()))
"""
RATES = ("clock_ghz", "l2_bytes", "l3_bytes", "l2_rate", "l3_rate", "memory_rate")


def stream(size: int = 128 << 20) -> None:
    """Copy memory until killed."""
    source, copy = np.ones(size, np.uint8), np.empty(size, np.uint8)
    while True:
        np.copyto(copy, source)


def multiply(size: int = 512) -> None:
    """Multiply matrices until killed."""
    matrix = np.ones((size, size), np.float32)
    while True:
        matrix @ matrix


@contextmanager
def load(count: int):
    """So many busy processes, every second of which streams memory."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
    started = [
        multiprocessing.get_context("spawn").Process(target=(stream, multiply)[k % 2], daemon=True)
        for k in range(count)
    ]
    try:
        for process in started:
            process.start()
        time.sleep(2)  # until all are past their imports
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


def first_record() -> machine_file.Record:
    """What the first plan of a process with an empty cache leaves there."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "WINOGEN_CACHE": folder, "WINOGEN_CALIBRATE": ""}
        subprocess.run([sys.executable, "-c", FIRST_PLAN], env=environment, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        record = machine_file.read(Path(folder))
    assert record is not None
    return record


def shown(name: str, record: machine_file.Record) -> None:
    """Print a record."""
    found = record.machine
    print(
        f"{name:<10} {found.clock_ghz:5.2f} GHz, L2 {found.l2_rate:6.2f}, L3 {found.l3_rate:6.2f}, "
        f"memory {found.memory_rate:6.2f} bytes a cycle, L3 {found.l3_bytes >> 20} MiB; "
        f"{', '.join(record.signs) or 'nothing speaks against it'}"
    )


def plan(problem, record: Machine):
    """The candidate that runs, and what tells it from others."""
    best = planner.ranked(problem, Request(threads=1), host_target(), record, 1)[0]
    cuts = [(work.block, work.split, work.images) for work in best.works(problem)]
    return best, (best.choice, cuts)


class Runner:
    """One way to compute a layer, and the least CPU time that it took."""

    def __init__(self, problem, candidate) -> None:
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal(problem.input_shape).astype(np.float32)
        weight = rng.standard_normal(problem.layer.weight_shape).astype(np.float32)
        self.y = memory.empty(problem.output_shape, np.dtype(np.float32), "output")
        self.prepared, self.kept = Prepared(problem, [candidate], host_target()), {}
        self.packed = self.prepared.pack(weight, self.kept)
        self.least = math.inf

    def run(self) -> None:
        """Run it twice, the first time to warm up."""
        for _ in range(2):
            begin = time.thread_time()
            self.prepared.run(self.x, self.packed, None, self.y)
            took = time.thread_time() - begin
        self.least = min(self.least, took)


def compare(quiet: Machine, other: Machine, layers, layout: str, rounds: int) -> list[float]:
    """Print layers whose plans differ; return how much longer each layer takes by ``other``."""
    found = []
    for layer in layers:
        problem = layer.problem(layout)
        (one, first), (two, second) = (plan(problem, record) for record in (quiet, other))
        if first == second:
            found.append(1.0)
            continue
        ways = [Runner(problem, candidate) for candidate in (one, two)]
        for turn in range(rounds):
            for way in ways if turn % 2 else reversed(ways):
                way.run()
        found.append(ways[1].least / ways[0].least)
        names = [
            f"{way.prepared.choice.algorithm} {way.prepared.choice.tile or ''}" for way in ways
        ]
        print(f"  {layer.name:<32} {found[-1]:5.2f}  {names[0]} -> {names[1]}")
    mean = math.exp(sum(map(math.log, found)) / len(found))
    differ = sum(ratio != 1 for ratio in found)
    print(f"  {len(found)} layers, {differ} other plans: mean {mean:.3f}, worst {max(found):.3f}")
    return found


def wrong_records(tries: int) -> None:
    """Records wrong by four, each number in each direction: are they replaced within a day?"""
    os.environ["WINOGEN_CALIBRATE"] = ""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WINOGEN_CACHE"] = folder
        truth = machine.current()
        for name in RATES:
            for factor in (1 / 4, 4):
                value = type(getattr(truth, name))(getattr(truth, name) * factor)
                wrong = replace(truth, **{name: value})
                if wrong.l2_bytes > wrong.l3_bytes:
                    wrong = replace(wrong, l3_bytes=wrong.l2_bytes)
                old = machine_file.now() - timedelta(days=2)
                record = machine_file.Record(wrong, 64 << 20, old, old)
                after, looks = wrong, 0
                while after == wrong and looks < tries:
                    looks += 1
                    machine_file.write(record._replace(checked=old), Path(folder))
                    machine._known.cache_clear()
                    after, record = machine.current(), machine_file.read(Path(folder))
                worst = max(max(r, 1 / r) for r in ratios(after, truth).values())
                result = f"replaced at look {looks}" if after != wrong else "kept"
                print(f"{name:<12} x {factor:<5g} {result}, now within {worst:.2f} of the truth; "
                      f"{machine.described()}")  # fmt: skip


def main() -> None:
    """Measure and print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", default="thesis27", help="a layer set of the benchmark")
    parser.add_argument("--layout", default="NCHW", choices=("NCHW", "NHWC"))
    parser.add_argument("--load", type=int, default=4, help="busy processes")
    parser.add_argument("--records", type=int, default=3, help="measured beside the load")
    parser.add_argument("--rounds", type=int, default=15, help="of runs, in turns")
    parser.add_argument("--memory-rate", type=float, help="of a wrong record to compare, too")
    parser.add_argument("--wrong", action="store_true", help="only: are wrong records noticed?")
    parser.add_argument("--tries", type=int, default=5, help="days that a wrong record may last")
    options = parser.parse_args()
    if options.wrong:
        wrong_records(options.tries)
        return
    layers = chosen_layers(options.layers, None)
    quiet = first_record()
    shown("quiet", quiet)
    with load(options.load):
        loaded = [first_record() for _ in range(options.records)]
    machines = {f"loaded {k + 1}": record for k, record in enumerate(loaded)}
    if options.memory_rate:
        slow = replace(quiet.machine, memory_rate=options.memory_rate)
        machines["wrong"] = quiet._replace(machine=slow, signs=())
    for name, record in machines.items():
        shown(name, record)
        compare(quiet.machine, record.machine, layers, options.layout, options.rounds)


if __name__ == "__main__":
    main()
