"""The rates of a device, measured once and kept in the cache folder.

Three small kernels say how many numbers it multiplies and adds, how many bytes it moves, and what a
launch costs. With ``WINOGEN_CALIBRATE=0`` nothing is measured: then plans count with what the
driver tells, and with memory that brings a number for every eight multiply-adds.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from winogen.codegen.devices.expressions import Call, Expr, Id, Load, Name, Number, Splat
from winogen.codegen.devices.statements import (
    Array,
    Assign,
    Declare,
    Kernel,
    Let,
    Loop,
    Store,
    Work,
)
from winogen.opencl import running
from winogen.opencl.counting import Rates
from winogen.opencl.devices import Device, platform
from winogen.toolchain import trust
from winogen.toolchain.cache import cache_root, write_whole
from winogen.toolchain.machine import may_measure

_CHAINS = 16  # of multiply-adds, which do not wait for each other
_STEPS = 256
_COPIED = 1 << 24  # numbers
_TIMES = 5  # of which the fastest counts
_LAUNCHES = 20
_PER_NUMBER = 8  # multiply-adds while memory brings a number, where nothing was measured


def rates_of(context: Any) -> Rates:
    """Return the rates of the first device of a context: kept, or measured now."""
    device = Device.of(context.devices[0])
    return _known(context, device) if may_measure() else told(device)


def told(device: Device) -> Rates:
    """Return what follows from what the driver tells."""
    operations = 1e6 * device.compute_units * device.megahertz * max(device.vector, 1)
    return Rates(operations, 4 * operations / _PER_NUMBER, 1e-5, 32 if device.kind == "gpu" else 1)


_found: dict[str, Rates] = {}


def _known(context: Any, device: Device) -> Rates:
    if device.key not in _found:
        path = _path(device)
        kept = _read(path)
        if kept is None:
            kept = measured(context, device)
            _write(path, kept)
        _found[device.key] = kept
    return _found[device.key]


def _path(device: Device) -> Path:
    digest = hashlib.sha256(device.key.encode()).hexdigest()[:16]
    return cache_root() / f"opencl_{digest}.json"


def _read(path: Path) -> Rates | None:
    try:
        values = json.loads(trust.read(path))
        operations, bytes_, launch = (
            float(values[name]) for name in ("operations", "bytes", "launch")
        )
        found = Rates(operations, bytes_, launch, int(values["wave"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if min(found.operations, found.bytes, found.launch, found.wave) > 0 else None


def _write(path: Path, rates: Rates) -> None:
    try:
        trust.check_folder(path.parent)
        write_whole(path, (json.dumps(asdict(rates), indent=2) + "\n").encode())
    except OSError:  # nobody must be able to keep them
        pass


def measured(context: Any, device: Device) -> Rates:
    """Measure the rates of a device: in a tenth of a second, and what its compiler takes."""
    cl = platform()
    queue = cl.CommandQueue(
        context, context.devices[0], properties=cl.command_queue_properties.PROFILING_ENABLE
    )
    count = min(_COPIED, device.largest_buffer // 8)
    count -= count % device.group
    items = device.compute_units * min(device.group, 256) * 8
    work = {
        "multiply": _multiplying(device, items),
        "move": _moving(device, count),
        "nothing": _moving(device, min(device.group, 64) * device.vector),
    }
    best = {}
    for name, one in work.items():
        compiled = running.Running(one, context)
        buffers = {array.name: compiled.buffer(array) for array in one.arrays}
        for array in one.arrays:
            cl.enqueue_fill_buffer(queue, buffers[array.name], np.float32(0), 0, array.nbytes)
        times = [sum(running.seconds(compiled.run(queue, buffers))) for _ in range(_TIMES)]
        best[name] = max(min(times), 1e-9)
    started = perf_counter()
    for _ in range(_LAUNCHES):
        compiled.run(queue, buffers)
    queue.finish()
    launch = (perf_counter() - started) / _LAUNCHES
    multiplied = float(items) * _CHAINS * _STEPS * device.vector
    return Rates(multiplied / best["multiply"], 8.0 * count / best["move"], launch, compiled.wave)


def _multiplying(device: Device, items: int) -> Work:
    """Multiply-adds of so many work-items, from registers to registers."""
    lanes, group = device.vector, min(device.group, 256)
    x = Array("x", (lanes,), "float32", "input")
    y = Array("y", (items * lanes,), "float32", "output")
    sums = Declare("sums", (_CHAINS,), lanes, value=_vector(1.0, lanes))
    factor = Let("factor", Load("x", Number(0), lanes, True))
    steps = tuple(
        Assign(sums[k], Call("fma", (sums[k], factor.read, factor.read))) for k in range(_CHAINS)
    )
    total: Expr = sums[0]
    for k in range(1, _CHAINS):
        total = total + sums[k]
    body = (
        factor,
        sums,
        Loop("step", Number(0), Number(_STEPS), Number(1), steps),
        Store("y", Id("global", 0) * lanes, total, True),
    )
    return Work(
        (),
        (Kernel("multiply", "Multiply-adds.", (x,), (y,), (items, 1, 1), (group, 1, 1), body),),
    )


def _moving(device: Device, count: int) -> Work:
    """A copy of so many numbers."""
    lanes = device.vector
    items = count // lanes
    group = min(device.group, 64, items)
    x = Array("x", (count,), "float32", "input")
    y = Array("y", (count,), "float32", "output")
    at = Name("at")
    body = (
        Let("at", Id("global", 0) * lanes),
        Store("y", at, Load("x", at, lanes, True), True),
    )
    kernel = Kernel("move", "A copy.", (x,), (y,), (items, 1, 1), (group, 1, 1), body)
    return Work((), (kernel,))


def _vector(value: float, lanes: int) -> Expr:
    return Splat(Number(value), lanes) if lanes > 1 else Number(value)
