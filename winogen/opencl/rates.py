"""The rates of a device, measured once and kept in the cache folder.

Three small kernels say how many numbers it multiplies and adds, how many bytes it moves, and what a
launch costs. With ``WINOGEN_CALIBRATE=0`` nothing is measured: then plans count with what the
driver tells, and with memory that brings a number for every eight multiply-adds.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from winogen.codegen.devices.expressions import Expr, FunctionCall, Id, Load, Name, Number, splat
from winogen.codegen.devices.statements import (
    Assign,
    Declare,
    DeviceArray,
    DeviceKernel,
    DeviceWork,
    ForLoop,
    Let,
    Store,
)
from winogen.opencl import running
from winogen.opencl.counting import DeviceRates
from winogen.opencl.devices import DeviceInfo, platform
from winogen.toolchain import trust
from winogen.toolchain.cache import cache_root, write_whole
from winogen.toolchain.machine import may_measure

_CHAINS = 16  # of multiply-adds, which do not wait for each other
_STEPS = 256
_COPIED = 1 << 24  # numbers
_TIMES = 5  # of which the fastest counts
_LAUNCHES = 20
_PER_NUMBER = 8  # multiply-adds while memory brings a number, where nothing was measured


def rates_of(context: Any) -> DeviceRates:
    """Return the rates of the first device of a context: kept, or measured now."""
    device = DeviceInfo.of(context.devices[0])
    return _known(context, device) if may_measure() else told(device)


def told(device: DeviceInfo) -> DeviceRates:
    """Return what follows from what the driver tells."""
    operations = device.compute_units * device.wave * device.item_operations
    return DeviceRates(operations, 4 * operations / _PER_NUMBER, 1e-5, device.wave)


_found: dict[str, DeviceRates] = {}


def _known(context: Any, device: DeviceInfo) -> DeviceRates:
    if device.key not in _found:
        path = _path(device)
        kept = _read(path)
        if kept is None:
            kept = measured(context, device)
            _write(path, kept)
        # A CPU computes one item after the other, whatever its driver says.
        _found[device.key] = replace(kept, wave=device.wave) if device.kind == "cpu" else kept
    return _found[device.key]


def _path(device: DeviceInfo) -> Path:
    digest = hashlib.sha256(device.key.encode()).hexdigest()[:16]
    return cache_root() / f"opencl_{digest}.json"


def _read(path: Path) -> DeviceRates | None:
    try:
        values = json.loads(trust.read(path))
        operations, bytes_, launch = (
            float(values[name]) for name in ("operations", "bytes", "launch")
        )
        found = DeviceRates(operations, bytes_, launch, int(values["wave"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if min(found.operations, found.bytes, found.launch, found.wave) > 0 else None


def _write(path: Path, rates: DeviceRates) -> None:
    try:
        trust.check_folder(path.parent)
        write_whole(path, (json.dumps(asdict(rates), indent=2) + "\n").encode())
    except OSError:  # nobody must be able to keep them
        pass


def measured(context: Any, device: DeviceInfo) -> DeviceRates:
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
        compiled = running.CompiledWork(one, context)
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
    return DeviceRates(
        multiplied / best["multiply"], 8.0 * count / best["move"], launch, compiled.wave
    )


def _multiplying(device: DeviceInfo, items: int) -> DeviceWork:
    """Multiply-adds of so many work-items, from registers to registers."""
    lanes, group = device.vector, min(device.group, 256)
    x = DeviceArray("x", (lanes,), "float32", "input")
    y = DeviceArray("y", (items * lanes,), "float32", "output")
    sums = Declare("sums", (_CHAINS,), lanes, value=splat(1, lanes))
    factor = Let("factor", Load("x", Number(0), lanes, True))
    steps = tuple(
        Assign(sums[k], FunctionCall("fma", (sums[k], factor.read, factor.read)))
        for k in range(_CHAINS)
    )
    total: Expr = sums[0]
    for k in range(1, _CHAINS):
        total = total + sums[k]
    body = (
        factor,
        sums,
        ForLoop("step", Number(0), Number(_STEPS), Number(1), steps),
        Store("y", Id("global", 0) * lanes, total, True),
    )
    return DeviceWork(
        (),
        (
            DeviceKernel(
                "multiply", "Multiply-adds.", (x,), (y,), (items, 1, 1), (group, 1, 1), body
            ),
        ),
    )


def _moving(device: DeviceInfo, count: int) -> DeviceWork:
    """A copy of so many numbers, in vectors: single numbers don't fill a processor's memory bus."""
    lanes = max(device.vector, 4)
    items = count // lanes
    group = min(device.group, 64, items)
    x = DeviceArray("x", (count,), "float32", "input")
    y = DeviceArray("y", (count,), "float32", "output")
    at = Name("at")
    body = (
        Let("at", Id("global", 0) * lanes),
        Store("y", at, Load("x", at, lanes, True), True),
    )
    kernel = DeviceKernel("move", "A copy.", (x,), (y,), (items, 1, 1), (group, 1, 1), body)
    return DeviceWork((), (kernel,))
