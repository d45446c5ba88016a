"""A graph of codes that runs as one call: what a segment is for numbers.

Values are maps (N, C, H, W) whose arrays have the channels last. Between operators they are codes
of int8, or sums; what callers give or get is int8, uint8 behind or before a `Recast`, or float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from winogen.conv import memory
from winogen.conv.solver import Offer
from winogen.errors import InvalidValue
from winogen.graph import code_calls, runtime
from winogen.graph.code_calls import OPERATORS, CodeCall, bytes_of, convolution, offer_of, other
from winogen.graph.code_tiles import described, is_near
from winogen.graph.ir import Graph, Node
from winogen.graph.memory import Life, offsets
from winogen.graph.ops import Shape
from winogen.graph.segment import remember
from winogen.graph.shapes import shapes
from winogen.kernels.kind import Spec
from winogen.kernels.work import round_up
from winogen.records.machine import LINE
from winogen.tasks.idle import give_way
from winogen.toolchain import host_target
from winogen.toolchain.fork import Lock
from winogen.toolchain.threads import follow


class CodeStep(NamedTuple):
    """A call, the values that it reads and makes, and where in that it begins to write."""

    call: CodeCall
    reads: tuple[str, ...]
    made: str
    channel: int = 0


_Key = tuple[tuple[Shape, ...], int]  # shapes of the inputs, and threads


class CodeSegment:
    """A graph of codes, planned and compiled for every shape of its inputs once.

    Kernels serve all sizes: later shapes are computed by those of the first one. Raises
    InvalidValue for a graph with other operators.

    >>> from winogen.graph import Node, QConv
    >>> ones = np.ones((2, 3, 1, 1), np.int8)
    >>> one, two = np.float32(1), np.float32(2)
    >>> conv = QConv(ones, None, "int8", 0, 0, one, one, two, 0, "int8")
    >>> segment = CodeSegment(Graph(("x",), [Node(conv, ("x",), ("y",))], ("y",)))
    >>> (y,) = segment([np.full((1, 4, 4, 3), 6, np.int8)])
    >>> y.shape, int(y[0, 0, 0, 0])
    ((1, 4, 4, 2), 9)
    """

    def __init__(self, graph: Graph):
        for node in graph.nodes:
            if not isinstance(node.op, OPERATORS):
                raise InvalidValue(f"graph: got the operator {node.op}; allowed: those of codes")
        self.graph = graph
        self._forget()

    def _forget(self) -> None:
        self._bound: dict[_Key, BoundCodes] = {}
        self._packed: dict[str, dict[Any, np.ndarray]] = {}  # by node
        self._familiar: dict[str, frozenset[Spec]] = {}  # kernels, by node
        self._lock = Lock()

    def __call__(self, arrays: Sequence[np.ndarray], threads: int = 1) -> list[np.ndarray]:
        """Return the outputs for C-contiguous arrays (N, H, W, C); raises BuildError."""
        bound = self.bound([(x.shape[0], x.shape[3], *x.shape[1:3]) for x in arrays], threads)
        made = [np.empty(shape, dtype) for shape, dtype in bound.outputs]
        bound.run([array.ctypes.data for array in (*arrays, *made)])
        return made

    def output_shapes(self, input_shapes: Sequence[Shape]) -> list[Shape]:
        """Return the shapes of the outputs, (N, C, H, W); raises InvalidValue."""
        values = shapes(self.graph, dict(zip(self.graph.inputs, input_shapes)))
        return [values[name] for name in self.graph.outputs]

    def bound(self, input_shapes: Sequence[Shape], threads: int) -> BoundCodes:
        """Return the segment for inputs of these shapes, (N, C, H, W), compiled.

        The last 16 are remembered. Raises InvalidValue for shapes that do not fit, and BuildError.
        """
        key = tuple(map(tuple, input_shapes)), threads
        bound = self._bound.get(key)
        if bound is None:
            with self._lock:
                bound = BoundCodes(self.graph, *key, self._packed, self._familiar)
                remember(self._bound, key, bound)
                for name, spec in bound.specs.items():
                    self._familiar.setdefault(name, frozenset([spec]))
        return bound

    def forget(self) -> object:
        """Forget all shapes; packed filters stay while the caller holds the result."""
        bound, packed = self._bound, self._packed
        self._forget()
        return bound, packed

    @property
    def packed_bytes(self) -> int:
        """Of all filters that are packed at present."""
        return sum(array.nbytes for some in self._packed.values() for array in some.values())

    def packed_of(self, name: str) -> int:
        """Return the bytes of the packed filters of what makes a value."""
        return sum(array.nbytes for array in self._packed.get(name, {}).values())

    def __getstate__(self) -> dict[str, Any]:
        return {"graph": self.graph}

    def __setstate__(self, state: dict[str, Any]) -> None:
        CodeSegment.__init__(self, state["graph"])


class BoundCodes:
    """A graph of codes for inputs of certain shapes, ready to run; immutable.

    ``outputs``: shapes (N, H, W, C) and types of the arrays. ``seconds``: predicted, by what each
    convolution makes.
    """

    def __init__(
        self,
        graph: Graph,
        input_shapes: Sequence[Shape],
        threads: int,
        packed: dict[str, dict[Any, np.ndarray]],
        familiar: dict[str, frozenset[Spec]],
    ):
        values = shapes(graph, dict(zip(graph.inputs, input_shapes)))
        self.threads, self.seconds, self.specs = threads, dict[str, float](), dict[str, Spec]()
        self.variants: dict[str, str] = {}  # of each convolution
        self.near: dict[str, Offer] = {}  # convolutions in tiles, which are not exact

        def convolution_of(node: Node, shape: Shape) -> CodeCall:
            op: Any = node.op.quantized
            offer = offer_of(op, shape, threads, familiar.get(node.output))
            self.seconds[node.output] = offer.best.seconds
            self.variants[node.output] = offer.best.choice.variant
            if is_near(offer):
                self.near[node.output] = offer
                self.variants[node.output] = described(offer)
            call = convolution(op, offer, packed.setdefault(node.output, {}))
            assert call.spec is not None
            self.specs[node.output] = call.spec
            return call

        steps = steps_of(graph, values, threads, convolution_of)
        makers = {node.output: node.op for node in graph.nodes}
        self.outputs = [
            ((shape[0], *shape[2:], shape[1]), _TYPES[bytes_of(makers[name])])
            for name in graph.outputs
            for shape in [values[name]]
        ]
        self._kept: list[Any] = [steps]
        self._lay(graph, values, steps)

    def _lay(self, graph: Graph, values: dict[str, Shape], steps: list[CodeStep]) -> None:
        """Fill in the steps."""
        laid, self.scratch_bytes = pointers_of(graph, values, steps)
        library = runtime.library(host_target(), "float32")
        self._ffi, self._lib = library.ffi, library.lib
        fields = dict(self._ffi.typeof("winogen_step").fields)
        kinds = [fields[name].type for name in ("run", "part")]
        rows = []
        for (call, *_), pointers in zip(steps, laid):
            functions = (
                self._ffi.cast(kind, address) for kind, address in zip(kinds, (call.run, call.part))
            )
            numbers = 0, call.parts, call.phase_parts, call.threads
            rows.append((*functions, pointers, *numbers))
        self._table = self._ffi.new("winogen_step[]", rows)
        self._count = len(rows)

    @property
    def plan(self) -> tuple[int, int]:
        """How many steps there are, and the address of these, which live as long as this.

        Their slots: 0, the inputs, the outputs, memory to work in.
        """
        return self._count, int(self._ffi.cast("intptr_t", self._table))

    def run(self, addresses: Sequence[int]) -> None:
        """Run on the arrays at these addresses: all inputs, then all outputs; nobody checks."""
        scratch = memory.workspace(self.scratch_bytes)
        slots = self._ffi.new("int64_t[]", (0, *addresses, scratch.ctypes.data))
        follow()
        self._lib.winogen_run_segment(self._table, self._count, slots, self.threads)


def steps_of(
    graph: Graph,
    values: Mapping[str, Shape],
    threads: int,
    convolution_of: Callable[[Node, Shape], CodeCall],
) -> list[CodeStep]:
    """Return the calls of a graph whose values have these shapes; of a concatenation several."""
    steps: list[CodeStep] = []
    for node in graph.nodes:
        give_way()
        op, made, begin = node.op, node.output, 0
        if op.quantized is not None:
            call = convolution_of(node, values[node.inputs[0]])
            steps.append(CodeStep(call, node.reads, made))
            continue
        parts: list[tuple[str, ...]] = [(name,) for name in node.reads]
        for reads in parts if op.is_concat else [node.reads]:
            call = other(op, values[reads[0]], values[made], threads)
            steps.append(CodeStep(call, reads, made, begin))
            begin += values[reads[0]][1]
    return steps


def pointers_of(
    graph: Graph, values: Mapping[str, Shape], steps: Sequence[CodeStep]
) -> tuple[list[list[tuple[int, int]]], int]:
    """Return the slots and offsets of the pointers of each call, and bytes of memory to work in.

    Those of structs and constants are addresses, in slot 0.
    """
    ends = {name: (1 + i, 0) for i, name in enumerate((*graph.inputs, *graph.outputs))}
    scratch = 1 + len(ends)
    workspace = int(round_up(max((s.call.workspace_bytes for s in steps), default=0), LINE))
    used: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    for number, node in enumerate(graph.nodes):
        sizes[node.output] = bytes_of(node.op) * prod(values[node.output])
        for name in (*node.reads, node.output):
            if name not in ends:
                used.setdefault(name, []).append(number)
    lives = [Life(sizes[name], min(when), max(when)) for name, when in used.items()]
    begins, arena = offsets(lives)
    places = ends | {name: (scratch, workspace + begin) for name, begin in zip(used, begins)}
    laid = []
    for step in steps:
        call, reads = step.call, [places[name] for name in step.reads]
        fixed = [(0, array.ctypes.data) for array in call.arrays]
        slot, offset = places[step.made]
        made = slot, offset + step.channel
        pointers = [(0, call.struct), reads[0], made, *reads[1:], *fixed]
        if call.spec is not None:
            given = dict(zip(("packed", "bias"), fixed)) | dict(zip(("input", "add"), reads))
            inputs = (given.get(name, (0, 0)) for name in call.spec.inputs)
            pointers = [(0, call.struct), *inputs, made, (scratch, 0)]
        laid.append(pointers)
    return laid, workspace + arena


_TYPES = {1: np.dtype(np.int8), 4: np.dtype(np.float32)}


def libraries() -> dict[str, Callable[[], object]]:
    """Return what loads all that segments of codes call besides kernels, by names."""
    segments = partial(runtime.library, host_target(), "float32")
    return {"codes": code_calls.library, "segments": segments}


def kernels(segments: Sequence[tuple[CodeSegment, Sequence[Shape]]], threads: int) -> list[Spec]:
    """Return the kernels that segments need for inputs of these shapes, each once."""
    found: dict[Spec, None] = {}
    for segment, input_shapes in segments:
        graph = segment.graph
        values = shapes(graph, dict(zip(graph.inputs, input_shapes)))
        for node in graph.nodes:
            if node.op.quantized is not None:
                offer = offer_of(node.op.quantized, values[node.inputs[0]], threads)
                found |= dict.fromkeys(offer.best.specs(offer.problem))
    return list(found)
