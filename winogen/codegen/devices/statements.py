"""What kernels of devices do: statements, kernels and what launches them, without any spelling.

All sizes are known when a kernel is made, so that they are numbers in its text, loops that run once
leave it, and the compiler of the device sees every bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from winogen.codegen.devices.expressions import Element, Expr, Name, expr

# What an array is to a call. What was made of the weights once is "packed".
Role = Literal[
    "input", "weights", "packed", "bias", "slopes", "add", "add_after", "output", "workspace"
]


@dataclass(frozen=True)
class Let:
    """A name for a value that does not change."""

    name: str
    value: Expr

    @property
    def read(self) -> Name:
        """The expression that reads it."""
        return Name(self.name, self.value.real, self.value.lanes)


@dataclass(frozen=True)
class Declare:
    """A variable of the work-item's own, or an array of such; a shape of () is one number.

    ``value`` is what every element begins with.
    """

    name: str
    shape: tuple[int, ...] = ()
    lanes: int = 1
    real: bool = True
    value: Expr | None = None

    def __getitem__(self, indices: Any) -> Element:
        """The expression that reads an element, and the target that writes one."""
        indices = indices if isinstance(indices, tuple) else (indices,)
        return Element(self.name, tuple(map(expr, indices)), self.real, self.lanes)

    @property
    def read(self) -> Name:
        """The expression that reads a single variable, and the target that writes it."""
        return Name(self.name, self.real, self.lanes)


@dataclass(frozen=True)
class Assign:
    """A new value of a variable or of an element of the work-item's own."""

    target: Name | Element
    value: Expr


@dataclass(frozen=True)
class Store:
    """Numbers into a parameter or a work-group's array, from an index on; see `Load`."""

    array: str
    index: Expr
    value: Expr
    aligned: bool = False


@dataclass(frozen=True)
class ForLoop:
    """A loop over start, start + step, ... below ``stop``. ``unroll``: whether to ask for that."""

    name: str
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Statement, ...]
    unroll: bool = False


@dataclass(frozen=True)
class If:
    """What is done where a condition holds, and where it doesn't."""

    condition: Expr
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Barrier:
    """Waits until all items of the work-group are here, and sees what they wrote to its arrays."""


@dataclass(frozen=True)
class TransformCall:
    """A call of a `DeviceRoutine`: from an array of the work-item's own to another.

    Each is the name of an array of one axis, or the element of one with more that is such an array.
    """

    function: str
    source: str | Element
    target: str | Element


@dataclass(frozen=True)
class Remark:
    """A comment that says why."""

    text: str


Statement = Let | Declare | Assign | Store | ForLoop | If | Barrier | TransformCall | Remark


@dataclass(frozen=True)
class DeviceArray:
    """An array in the device's memory, which a call brings, or has for itself (a workspace)."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # float32 or float16
    role: Role

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return prod(self.shape) * {"float32": 4, "float16": 2}[self.dtype]


@dataclass(frozen=True)
class Shared:
    """An array that the items of a work-group share."""

    name: str
    size: int  # numbers, of the kernel's arithmetic

    lanes: int = 1


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel, and how it is launched.

    ``items`` are those of all work-groups along each axis, a multiple of ``group``.
    """

    name: str
    comment: str
    reads: tuple[DeviceArray, ...]
    writes: tuple[DeviceArray, ...]
    items: tuple[int, int, int]
    group: tuple[int, int, int]
    body: tuple[Statement, ...]
    shared: tuple[Shared, ...] = ()

    @property
    def parameters(self) -> tuple[DeviceArray, ...]:
        """What a call of it is given, in this order: what it reads and then what it writes."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))


@dataclass(frozen=True)
class DeviceRoutine:
    """A transform that kernels call, of the exact program of an algorithm: see `TransformCall`."""

    name: str
    program: Any  # winogen.program.Program
    lanes: int = 1


@dataclass(frozen=True)
class DeviceWork:
    """Kernels that compute a problem, one behind the other, with all arrays that they need.

    ``pack`` are those that run once for the weights, whose results stay. ``arithmetic`` is what
    numbers are computed in.
    """

    pack: tuple[DeviceKernel, ...]
    kernels: tuple[DeviceKernel, ...]
    routines: tuple[DeviceRoutine, ...] = ()
    arithmetic: Literal["float32", "float16"] = "float32"

    @property
    def arrays(self) -> tuple[DeviceArray, ...]:
        """All arrays, each once, in the order in which kernels name them."""
        every = (array for k in (*self.pack, *self.kernels) for array in k.parameters)
        return tuple(dict.fromkeys(every))

    @property
    def workspace_bytes(self) -> int:
        """The bytes of what a call needs besides its own arrays and packed weights."""
        return sum(one.nbytes for one in self.arrays if one.role == "workspace")
