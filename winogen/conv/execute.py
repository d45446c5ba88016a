"""From a plan to running C: kernels are rendered, loaded and bound to a problem's sizes.

A `Kernel` is one loaded library. A `Prepared` problem holds the argument structs of all its kernel
calls, so that running it again costs little more than the calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from winogen import environment
from winogen.conv import memory, planner, rankings, stock, wisdom
from winogen.conv.choice import axes, multiplications
from winogen.conv.cuts import Candidate, evaluate
from winogen.conv.executable import Arrays, Executable, Kept
from winogen.conv.plan import ALTERNATIVES, Prediction
from winogen.conv.problem import Problem
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer, Solver, solvers
from winogen.conv.stock import build_of
from winogen.kernels import named
from winogen.kernels.kind import Spec
from winogen.kernels.spec import KernelSpec
from winogen.records import Machine, Target
from winogen.toolchain.machine import is_new, settle
from winogen.toolchain.threads import follow

# Seconds after which a call returns to Python, where Ctrl-C is heard.
_PATIENCE = 0.2
_PACE = 1e10  # multiplications in a second, where no plan predicts it


_Function = TypeVar("_Function", bound=Callable[..., Any])
_forgetting: list[Callable[[], None]] = []


def remembered(most: int) -> Callable[[_Function], _Function]:
    """Return what makes a function remember so many results, until `forget` is called.

    Its arguments are all that a result depends on: the machine and the `Environment`, too.
    """

    def remembering(function: _Function) -> _Function:
        cached = lru_cache(maxsize=most)(function)
        _forgetting.append(cached.cache_clear)
        return cast(_Function, cached)

    return remembering


def forget() -> None:
    """Forget all plans and kernels of this process."""
    for clear in _forgetting:
        clear()
    wisdom.forget()
    stock.forget()


class Environment(NamedTuple):
    """The variables of the environment that kernels depend on; another value makes another plan."""

    compiler: str | None
    cache: str
    flush_denormals: bool
    wisdom: str = ""
    compile: str = ""
    prebuilt: str = ""

    @classmethod
    def now(cls) -> Environment:
        """Return the environment of this process as it is."""
        return cls(
            os.environ.get("CC"),
            environment.value("WINOGEN_CACHE"),
            environment.value("WINOGEN_FLUSH_DENORMALS") == "1",
            environment.value("WINOGEN_WISDOM"),
            environment.value("WINOGEN_COMPILE"),
            environment.value("WINOGEN_PREBUILT"),
        )


class Kernel:
    """A compiled kernel, and how arrays are passed to it.

    It serves all sizes of its spec. Made by `kernel`, which compiles each only once.
    """

    def __init__(self, spec: Spec):
        self.spec = spec
        self.build = build_of(spec)
        library = self.build.load()
        self.ffi = library.ffi
        self.lib = library.lib
        self.bytes = self.ffi.typeof("char[]")
        self.address = self.ffi.typeof("void *")
        self.call = self.ffi.typeof("winogen_call *")

    @property
    def source(self) -> str:
        """Its C."""
        return str(self.build.source)

    def pointer(self, array: np.ndarray | None) -> Any:
        """Return a C pointer to the numbers of an array; NULL for None.

        It keeps a contiguous array alive, but not one that is a slice.
        """
        if array is None:
            return self.ffi.NULL
        if array.flags.c_contiguous:  # several times as quick
            if array.itemsize == 2:  # bfloat16, unknown to Python's buffers
                array = array.view(np.uint16)
            return self.ffi.from_buffer(self.bytes, array)
        return self.ffi.cast(self.address, array.ctypes.data)

    def pack(self, struct: Any, threads: int, *arrays: np.ndarray | None) -> np.ndarray:
        """Return arrays of the spec's ``packs`` as this kernel reads them; raises OutOfMemory."""
        packed = memory.aligned(struct.packed_bytes, f"packed {self.spec.packs[0]}")
        pointers = map(self.pointer, (*arrays, packed))
        self.lib.winogen_pack(struct, *pointers, threads)
        return packed


def pieces_of(seconds: float) -> int:
    """Return in how many pieces a call of about so many seconds is made."""
    return max(1, int(seconds / _PATIENCE))


@remembered(1024)
def kernel(spec: Spec, environment: Environment) -> Kernel:
    """Return the kernel, rendered, compiled and loaded on first use.

    Raises BuildError and what derives from it.
    """
    return Kernel(spec)


class Call:
    """A call of a kernel for arrays of certain shapes: its sizes, its memory and its threads.

    Immutable after construction, so that threads may share it.
    """

    def __init__(
        self, spec: Spec, work: Any, environment: Environment, seconds: float | None = None
    ):
        self.kernel = kernel(spec, environment)
        self.work = work
        self.threads = work.threads
        self.workspace_bytes = spec.workspace_bytes(work)
        fields = spec.values(work, flush_denormals=environment.flush_denormals)
        self.struct = self.kernel.ffi.new("winogen_conv *", fields)
        self._pieces = pieces_of(work.products / _PACE if seconds is None else seconds)

    def pack(self, *arrays: np.ndarray | None) -> np.ndarray:
        """Return the arrays that the spec says are packed, as this kernel reads them."""
        return self.kernel.pack(self.struct, self.threads, *arrays)

    def run(self, *pointers: Any) -> None:
        """Compute, with pointers to the inputs and the output in the order of the spec.

        A long call is done in pieces: between them Python handles signals.
        """
        code = self.kernel
        scratch = code.ffi.from_buffer(memory.workspace(self.workspace_bytes))
        call = code.ffi.new(code.call, (self.struct, *pointers, scratch))
        follow()
        if self._pieces == 1:
            code.lib.winogen_run(call, self.threads)
            return
        for first, last in self.ranges(self._pieces, self.threads):
            code.lib.winogen_run_some(call, first, last, self.threads)

    def ranges(self, pieces: int, threads: int) -> list[tuple[int, int]]:
        """Return the parts of about so many pieces, counted through all phases: from, to."""
        parts = self.struct.phases * self.struct.parts
        # A multiple of the threads, so that they wait for each other as seldom as possible.
        step = max(1, -(-parts // pieces // threads)) * threads
        return [(first, min(first + step, parts)) for first in range(0, parts, step)]


class Prepared(Executable):
    """A problem bound to kernels."""

    def __init__(
        self,
        problem: Problem,
        ranked: list[Candidate],
        target: Target,
        environment: Environment | None = None,
    ):
        environment = environment or Environment.now()
        works, seconds = ranked[0].works(problem), ranked[0].seconds
        calls = [Call(KernelSpec.of(work), work, environment, seconds) for work in works]
        request = Request(threads=ranked[0].choice.threads)
        query = Query(problem, request, target, Machine())
        super().__init__(Offer(Kernels(), query, target, ranked, request.threads), calls)
        self.ranked = ranked
        self.choice = ranked[0].choice
        self.workspace_bytes = max((call.workspace_bytes for call in calls), default=0)

    def pack(self, weight: np.ndarray, kept: Kept | None = None) -> tuple[Any, ...]:
        """Return the packed weights of every call, remembered per kernel."""
        kept = {} if kept is None else kept
        pointers = []
        for call in self.calls:
            packed = kept.get(call.kernel)
            if packed is None:
                packed = kept[call.kernel] = call.pack(weight)
            pointers.append(call.kernel.pointer(packed))
        return tuple(pointers)

    def compute(self, packed: tuple[Any, ...], arrays: Arrays) -> None:
        """Call all kernels."""
        self._launch(packed, tuple(map(self.calls[0].kernel.pointer, arrays)))

    def run_at(self, packed: tuple[Any, ...], *addresses: int) -> None:
        """Call all kernels, with addresses."""
        kernel = self.calls[0].kernel
        cast, address = kernel.ffi.cast, kernel.address
        self._launch(packed, tuple([cast(address, one) for one in addresses]))

    def _launch(self, packed: tuple[Any, ...], pointers: tuple[Any, ...]) -> None:
        """Call all kernels; pointers of one library serve the others, as their types are equal."""
        if len(self.calls) > 1:
            memory.workspace(self.workspace_bytes)  # for all, before anything is computed
        for call, filters in zip(self.calls, packed):
            call.run(pointers[0], filters, *pointers[1:])


class Kernels(Solver):
    """Kernels in C: direct convolution and Winograd's, by all variants that there are."""

    def offer(self, query: Query, best: Offer | None = None) -> Offer | None:
        """Return the ways that the planner ranks, which later processes recall."""
        request = query.request
        if any(solver.algorithm == request.algorithm for solver in solvers()):
            return None
        kind = f"first {ALTERNATIVES}"
        ranked = rankings.kept(kind, query, lambda: planner.rank(query, ALTERNATIVES))
        target = ranked[0].target or query.target
        return Offer(self, query, target, ranked, request.threads)

    def bind(self, offer: Offer, environment: Environment) -> Prepared:
        """Return it bound to compiled kernels."""
        if is_new() and not all(map(stock.at_hand, offer.best.specs(offer.problem))):
            settle()  # for later processes, as this call compiles anyway
        return Prepared(offer.problem, list(offer.candidates), offer.target, environment)

    def alone(self, offer: Offer) -> float:
        """Return the seconds of the best one on one thread."""
        problem, request, target, machine, *_ = offer.query
        if request.threads == 1:
            return float(offer.best.seconds)
        choices = [replace(offer.best.choice, threads=1)]
        return evaluate(problem, choices, target, machine, request.workspace_limit)[0].seconds

    def prediction(self, offer: Offer, candidate: Candidate) -> Prediction:
        """Return what the planner expects of a candidate."""
        choice, target = candidate.choice, candidate.target or offer.target
        error = planner.predicted_error(offer.problem.layer, choice, target)
        return Prediction(candidate.seconds, error, choice.algorithm, choice.tile, choice.tag)

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return the choice, the sizes and the C of its kernels."""
        problem, layer, choice = offer.problem, offer.problem.layer, offer.best.choice
        sets: dict[str, Any] = {"points": None, "moduli": None}
        if choice.tile is not None:
            both = (None, *axes(layer, choice))[-layer.rank :]
            sets = {
                name: tuple(getattr(t, name) or None if t else None for t in both) for name in sets
            }
        works = [(KernelSpec.of(work), work) for work in offer.best.works(problem)]
        (spec, main), *rim = works
        chosen = ("tile", "order", "edge", "border", "threads", "sizes")
        return {
            **{name: getattr(choice, name) for name in chosen},
            **sets,
            "precision": main.precision,
            "variant": main.variant,
            "workspace_bytes": max(one.workspace_bytes(work) for one, work in works),
            "packed_weight_bytes": sum(
                named(work.variant).packed_bytes(work) for work in dict(works).values()
            ),
            "multiplications": multiplications(problem, choice),
            "measured": offer.best.measured,
            "with_compiler": offer.best.missed,
            "source": str(build_of(spec).source),
            "rim_source": str(build_of(rim[0][0]).source) if rim else None,
        }
