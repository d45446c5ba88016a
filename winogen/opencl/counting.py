"""What kernels of devices demand, counted in their records, and how long that takes at some rates.

The same count serves direct convolution and Winograd's, so that they can be compared before
anything is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from winogen.codegen.devices.expressions import (
    Binary,
    Expr,
    FunctionCall,
    Lane,
    Load,
    Number,
    Select,
    Splat,
    Vector,
)
from winogen.codegen.devices.statements import (
    Assign,
    Declare,
    DeviceKernel,
    DeviceWork,
    ForLoop,
    If,
    Let,
    Statement,
    Store,
    TransformCall,
)
from winogen.kernels.work import round_up
from winogen.opencl.devices import DeviceInfo


@dataclass(frozen=True)
class DeviceRates:
    """What a device does in a second, as measured there: see `winogen.opencl.rates`."""

    operations: float  # on single numbers: a multiply-add is one
    bytes: float  # of its memory, read and written
    launch: float  # seconds that a kernel takes that does nothing
    wave: int = 1  # work-items of a group that it runs as one


@dataclass(frozen=True)
class KernelDemand:
    """What one launch of a kernel demands."""

    operations: float  # on single numbers, of all work-items
    bytes: int  # that it reads and writes
    footprint: int  # bytes of all arrays, each once
    groups: int  # of work-items
    items: int  # of a group

    @classmethod
    def of(
        cls, kernel: DeviceKernel, programs: Mapping[str, int], device: DeviceInfo
    ) -> KernelDemand:
        """Count those of a kernel on a device.

        Arithmetic of reals counts, and what reads and writes arrays that others see. A vector that
        is shorter than the device's counts as one of these. ``programs``: instructions of each
        transform.
        """
        each = _Counter(programs, device.vector).statements(kernel.body)
        arrays = dict.fromkeys((*kernel.reads, *kernel.writes))
        groups = prod(kernel.items) // prod(kernel.group)
        size = sum(one.nbytes for one in arrays)
        return cls(each * prod(kernel.items), size, size, groups, prod(kernel.group))

    def seconds(self, device: DeviceInfo, rates: DeviceRates) -> float:
        """Return how long it takes: to compute or to move bytes, whichever is longer.

        What fits into the device's cache is there already. A work-item computes no more than a
        vector in a clock, so few that do much leave lanes of a wide compute unit idle.
        """
        # Groups run on compute units, as many at a time.
        units = device.compute_units
        idle = -(-self.groups // units) * units / self.groups
        idle *= round_up(self.items, rates.wave) / self.items
        moving = self.bytes / rates.bytes if self.footprint > device.cache_bytes else 0.0
        each = self.operations / (self.groups * self.items)
        alone = each / device.item_operations if device.item_operations else 0.0
        return rates.launch + max(self.operations * idle / rates.operations, alone, moving)


def demands(work: DeviceWork, device: DeviceInfo) -> list[KernelDemand]:
    """Return what each kernel of a call demands."""
    programs = {
        one.name: one.program.counts().instructions * round_up(one.lanes, device.vector)
        for one in work.routines
    }
    return [KernelDemand.of(kernel, programs, device) for kernel in work.kernels]


def seconds(work: DeviceWork, device: DeviceInfo, rates: DeviceRates) -> float:
    """Return how long a call of a work is predicted to take."""
    return sum(one.seconds(device, rates) for one in demands(work, device))


class _Counter:
    def __init__(self, programs: Mapping[str, int], vector: int):
        self.programs = programs
        self.vector = vector

    def statements(self, body: Iterable[Statement]) -> float:
        return sum(map(self.statement, body))

    def statement(self, one: Statement) -> float:
        match one:
            case Let() | Assign():
                return self.expression(one.value)
            case Declare(value=Expr()):
                return 0.0
            case Store():
                return self.expression(one.value) + round_up(one.value.lanes, self.vector)
            case ForLoop():
                return _times(one) * self.statements(one.body)
            case If():
                return self.statements(one.body) + self.statements(one.otherwise)
            case TransformCall():
                return float(self.programs[one.function])
            case _:
                return 0.0

    def expression(self, one: Expr) -> float:
        match one:
            case Load():
                return round_up(one.lanes, self.vector)
            case Lane():
                return self.expression(one.vector)
            case Splat():
                return self.expression(one.value)
            case Vector():
                return sum(map(self.expression, one.parts))
            case Binary() | FunctionCall() | Select() if not one.real:
                return 0.0
            case Binary():
                inside = self.expression(one.left) + self.expression(one.right)
            case FunctionCall():
                inside = sum(map(self.expression, one.arguments))
            case Select():
                inside = sum(map(self.expression, (one.condition, one.yes, one.no)))
            case _:
                return 0.0
        return inside + round_up(one.lanes, self.vector)


def _times(loop: ForLoop) -> int:
    """How often a loop runs, and where the first differs from item to item, at most."""
    step = loop.step.value if isinstance(loop.step, Number) else 1
    match loop.start, loop.stop:
        case Number(value=start), Number(value=stop):
            return max(0, int(-(-(stop - start) // step)))
        case _, Number(value=stop):
            return int(-(-stop // step))
        case start, Binary(op="+", left=left, right=Number(value=count)) if left == start:
            return int(-(-count // step))
    return 1
