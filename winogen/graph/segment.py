"""A graph that runs as one call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from winogen.conv import arguments, memory, seams
from winogen.errors import BuildError, InvalidType, InvalidValue
from winogen.graph import later
from winogen.graph.compiling import compile_all, compile_soon, kernels
from winogen.graph.ir import Graph
from winogen.graph.planning import Planned, Settings, plan
from winogen.graph.shapes import Shape, shapes
from winogen.graph.steps import Bound
from winogen.graph.trial import tried
from winogen.kernels.spec import KernelSpec
from winogen.tasks.idle import give_way
from winogen.toolchain import host_target
from winogen.toolchain.fork import Lock
from winogen.toolchain.machine import current

# Input shapes that one segment remembers besides the ones kept by `Segment.keep`.
_SHAPES_KEPT = 16

_Key = tuple[tuple[Shape, ...], int | None]  # shapes and threads


def remember(table: dict[Any, Any], key: object, value: object, kept: Collection[Any] = ()) -> None:
    """Enter what belongs to shapes; the oldest goes where there are 16 besides those ``kept``."""
    others = [one for one in table if one not in kept]
    if len(others) >= _SHAPES_KEPT:
        del table[others[0]]
    table[key] = value


class Segment:
    """A graph without Opaque nodes, planned and compiled for every shape of its inputs once.

    Shapes are (N, C, H, W) wherever they are asked for, or (N, C, D, H, W) of volumes; arrays have
    their axes in that order with the ``layout`` "NCHW", and the channels last with "NHWC".

    ``tolerance``, ``threads`` and ``algorithm`` are those of `winogen.conv2d`, for every layer.
    ``memory_limit`` bounds the bytes of packed filters for one shape; None for no limit. Shapes
    that need more take as little as they can, as all do with 0. A layer whose predicted error is
    above ``most_error`` is computed more carefully, if there is a way. ``tolerances``: those of
    single layers, by what they make. Raises InvalidType and InvalidValue.

    >>> from winogen.graph import Activation, Conv, Graph, Node, Segment, simplify
    >>> box = np.ones((2, 1, 3, 3), np.float32)
    >>> nodes = [Node(Conv(box), ("x",), ("y",)), Node(Activation("relu"), ("y",), ("z",))]
    >>> segment = Segment(simplify(Graph(("x",), nodes, ("z",))))
    >>> (z,) = segment(np.ones((1, 1, 4, 4), np.float32))
    >>> z.shape, bool(abs(z - 9).max() < 1e-5)
    ((1, 2, 2, 2), True)
    """

    def __init__(
        self,
        graph: Graph,
        *,
        tolerance: float | None = None,
        threads: int | None = None,
        layout: str = "NCHW",
        algorithm: str = "auto",
        memory_limit: int | None = None,
        most_error: float | None = None,
        tolerances: Mapping[str, float] | None = None,
    ):
        for node in graph.nodes:
            if not node.op.in_segments:
                raise InvalidValue(
                    f"graph: got the operator {node.op}; allowed: no Opaque ones, and real numbers"
                )
        self.graph = graph
        self.dtype = graph.dtype or np.dtype(np.float32)
        if self.dtype not in arguments.DTYPE_NAMES:
            raise InvalidType(f"graph: got weights of {self.dtype}; allowed: float32 or float64")
        self.layout = arguments.choice("layout", layout, arguments.LAYOUTS[2])
        if tolerance is not None:
            arguments.positive("tolerance", tolerance, "None or a positive number, as 1e-6")
        arguments.threads(threads)
        self._options: dict[str, Any] = {
            "tolerance": tolerance,
            "threads": threads,
            "layout": layout,
            "algorithm": algorithm,
            "memory_limit": memory_limit,
            "most_error": most_error,
        }
        if tolerances:
            self._options["tolerances"] = dict(tolerances)
        self._forget()

    def _forget(self) -> None:
        self._plans: dict[_Key, Planned] = {}  # of what is not bound yet
        self._bound: dict[_Key, Bound] = {}
        self._kept: frozenset[_Key] = frozenset()
        self._familiar: frozenset[KernelSpec] | None = None
        # (Step, kernel) -> packed filters, as long as a bound shape needs them.
        self._packed: Any = WeakValueDictionary()
        self._lock = Lock()

    def __call__(
        self, *inputs: Any, outs: Sequence[np.ndarray] | None = None, threads: int | None = None
    ) -> list[np.ndarray]:
        """Return the outputs, in ``outs`` if given: C-contiguous arrays of the right shapes.

        ``threads`` for this call; None for those of the segment. Raises InvalidType, InvalidValue,
        BuildError and OutOfMemory.
        """
        arrays = self._inputs(inputs)
        bound = self.bound(tuple([self._logical(x.shape) for x in arrays]), threads)
        if outs is None:
            results = [memory.empty(shape, self.dtype, "output") for shape in bound.output_shapes]
        else:
            results = self._outputs(list(outs), bound.output_shapes, arrays)
        arrays = [memory.contiguous(x, "input") for x in arrays]
        bound.run([array.ctypes.data for array in (*arrays, *results)])
        return results if outs is None else list(outs)

    def output_shapes(self, input_shapes: Sequence[Shape]) -> list[Shape]:
        """Return the shapes of the outputs, from those of the inputs; sizes may be symbols."""
        values = shapes(self.graph, dict(zip(self.graph.inputs, input_shapes)))
        return [values[name] for name in self.graph.outputs]

    def settings(self, threads: int | None = None) -> Settings:
        """Return what all steps have in common, on this machine."""
        options = self._options
        return Settings(
            layout=self.layout,
            dtype=arguments.DTYPE_NAMES[self.dtype],
            threads=arguments.threads(options["threads"] if threads is None else threads),
            tolerance=options["tolerance"],
            algorithm=options["algorithm"],
            target=host_target(),
            machine=current(),
            most_error=options["most_error"],
            familiar=self._familiar,
            strips=self._familiar is None,  # they change no result, and finding them takes long
            tolerances=tuple(options.get("tolerances", {}).items()),
        )

    def plan(self, input_shapes: Sequence[Shape], threads: int | None = None) -> Planned:
        """Return the plan for inputs of these shapes, made once; compiles nothing."""
        key = (tuple(input_shapes), threads)
        planned = self._plans.get(key)
        if planned is None:
            limit = self._options["memory_limit"]
            planned = plan(self.graph, input_shapes, self.settings(threads), limit)
            with self._lock:
                remember(self._plans, key, planned, self._kept)
        return planned

    def bound(self, input_shapes: Sequence[Shape], threads: int | None = None) -> Bound:
        """Return the segment for inputs of these shapes, compiled.

        The last 16 shapes are remembered, and all that `keep` was told of.
        """
        key = (tuple(input_shapes), threads)
        bound = self._bound.get(key)
        if bound is None:
            planned = self.plan(input_shapes, threads)
            compile_all(kernels([planned]))  # side by side, before any is needed
            bound = self._bind(key, planned, self._familiar is None)  # else it is only tried out
        return bound

    def _bind(self, key: _Key, planned: Planned, measures: bool) -> Bound:
        with self._lock:  # filters are packed once even if several threads call at once
            if measures:
                planned = tried(planned, self._packed)
            bound = Bound(planned, self._packed)
            remember(self._bound, key, bound, self._kept)
            self._plans.pop(key, None)
        return bound

    def soon(self, input_shapes: Sequence[Shape], threads: int | None = None) -> Bound | None:
        """Return what `bound` does if it is there; if not, a thread begins to make it: None.

        Where `later.waits`, it is `bound`. Raises what went wrong in the thread; who asks again and
        again has it tried again, ever more rarely.
        """
        key = (tuple(input_shapes), threads)
        bound = self._bound.get(key)
        if bound is not None:
            return bound
        if later.waits():
            return self.bound(input_shapes, threads)
        planned = self._plans.get(key)
        later.go_on(self, key, None if planned is None else kernels([planned]))
        return None

    def is_bound(self, input_shapes: Sequence[Shape], threads: int | None = None) -> bool:
        """Return whether `bound` has nothing to do."""
        return (tuple(input_shapes), threads) in self._bound

    def advance(self, input_shapes: Sequence[Shape], threads: int | None = None) -> None:
        """Make the plan, have its kernels compiled, and with these there make the rest."""
        key = (tuple(input_shapes), threads)
        with suppress(BuildError):  # told to who asks for the kernels
            planned = self.plan(input_shapes, threads)
            if compile_soon(kernels([planned])) and key not in self._bound:
                compile_all(kernels([planned]))
                give_way()
                self._bind(key, planned, False)  # a busy machine is no place to measure

    def keep(self) -> None:
        """Remember for good the shapes that are bound now."""
        self._kept = frozenset(self._bound)

    def forget(self) -> object:
        """Forget all shapes; filters that are packed stay so while the caller holds the result."""
        with self._lock:
            bound, self._bound, self._plans, self._kept = self._bound, {}, {}, frozenset()
        return bound

    @contextmanager
    def confined(self, familiar: Collection[KernelSpec]) -> Iterator[None]:
        """Compute further shapes by these kernels meanwhile, as far as they can, and forget how.

        So it can be tried on several shapes before all their kernels are compiled.
        """
        before = dict(self._bound)
        self._plans, self._familiar = {}, frozenset(familiar)
        try:
            yield
        finally:
            self._bound, self._plans, self._familiar = before, {}, None

    @property
    def packed_bytes(self) -> int:
        """Of all filters that are packed at present, for all shapes."""
        return sum(array.nbytes for array in list(self._packed.values()))

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles carry the graph; kernels are planned and loaded where they arrive."""
        return {"graph": self.graph, "options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Segment.__init__(self, state["graph"], **state["options"])

    def _inputs(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        names = self.graph.inputs
        if len(inputs) != len(names):
            raise InvalidValue(f"inputs: got {len(inputs)}; allowed: {len(names)} arrays")
        arrays = [arguments.array(name, x) for name, x in zip(names, inputs)]
        for name, x in zip(names, arrays):
            if x.dtype != self.dtype:
                raise InvalidType(f"{name}: got dtype {x.dtype}; allowed: {self.dtype}")
            if x.ndim not in (4, 5):
                last = self.layout == "NHWC"
                axes = [", ".join(arguments.LAYOUTS[rank][last]) for rank in (2, 3)]
                raise InvalidValue(
                    f"{name}: got shape {x.shape}; allowed: 4 axes ({axes[0]}) or 5 ({axes[1]})"
                )
        return arrays

    def _outputs(
        self, outs: list[np.ndarray], wanted: Sequence[Shape], inputs: list[np.ndarray]
    ) -> list[np.ndarray]:
        if len(outs) != len(wanted):
            raise InvalidValue(f"outs: got {len(outs)}; allowed: {len(wanted)} arrays")
        others = {f"input {i}": x for i, x in enumerate(inputs)}
        results = []
        for i, (out, shape) in enumerate(zip(outs, wanted)):
            layout = arguments.LAYOUTS[len(shape) - 2][self.layout == "NHWC"]
            array, _ = seams.writeable(out, shape, self.dtype, layout, others)
            if not array.flags.c_contiguous:
                raise InvalidValue("outs: got a slice; allowed: C-contiguous arrays")
            results.append(array)
            others[f"output {i}"] = out
        return results

    def _logical(self, shape: Shape) -> Shape:
        if self.layout == "NCHW":
            return shape
        return (shape[0], shape[-1], *shape[1:-1])
