"""Signals in pieces: a layer that keeps what its next outputs will see of the pieces before.

However a signal is cut, the outputs have the same bits. Tiles of Winograd mix neighbours, so that
an output's rounding depends on where its tile begins; direct convolution sums the products of an
output by itself. So streams are direct, and all pieces of a layer run the same kernel: that which a
long signal runs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from winogen.conv import arguments, memory, planner
from winogen.conv.convolution import Convolution
from winogen.conv.cuts import Candidate, evaluate, work_of
from winogen.conv.execute import Environment, Prepared, remembered
from winogen.conv.folded import Folded, Folding
from winogen.conv.problem import Layer, Problem
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels import named
from winogen.records import Machine, Precision, Target
from winogen.toolchain import host_target
from winogen.toolchain.machine import current
from winogen.typing import Array, ArrayType, NDArray

if TYPE_CHECKING:
    from winogen.conv.executable import Executable

# Outputs of the long signal whose kernel all pieces run.
_LONG = 4096
# Bytes of a buffer that a stream keeps for the next call, at most, unless its samples need more.
_KEPT = 1 << 20


class Stream:
    """A causal layer of one signal, or of a batch of them, that arrives in pieces.

    Made by `winogen.Conv1d.stream`. A call takes the next samples and returns the outputs that they
    complete: for stride 1 as many as there are samples. For one caller at a time; layers may have
    any number of streams, which share the packed weights. Streams can be copied and pickled, with
    all that they have seen.

    >>> import numpy as np, winogen
    >>> conv = winogen.Conv1d(np.ones((1, 1, 3), np.float32), padding="causal")
    >>> stream = conv.stream()
    >>> stream(np.float32([1, 2])).tolist(), stream(np.float32([3, 4, 5])).tolist()
    ([[1.0, 3.0]], [[6.0, 9.0, 12.0]])
    >>> stream.reset()
    >>> stream(np.float32([1, 2, 3, 4, 5])).tolist()
    [[1.0, 3.0, 6.0, 9.0, 12.0]]
    """

    def __init__(self, windows: SignalWindows, batch: SupportsIndex):
        self._windows = windows
        self._batch = arguments.whole("batch", batch, 1, "a positive int")
        self.reset()

    def reset(self) -> None:
        """Forget all samples: the next one is the first of another signal."""
        layer = self._windows.whole
        shape = self._shape(layer.channels, layer.axes[0].before)
        held = memory.empty(shape, self._windows.dtype, "state of the stream")
        held[...] = 0
        self._hold(held)

    def _hold(self, samples: np.ndarray, skipped: int = 0) -> None:
        self._held = samples
        self._skipped = skipped  # samples to come that no output sees, as strides pass over them
        # Two buffers in turns: one has the samples that are held, the next call fills the other.
        self._buffer: np.ndarray | None = None
        self._other: np.ndarray | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles carry the layer and the samples, and share no buffers."""
        fields = (self._windows, self._batch, self._held.copy(), self._skipped)
        return dict(zip(("windows", "batch", "held", "skipped"), fields))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._windows, self._batch = state["windows"], state["batch"]
        self._hold(state["held"], state["skipped"])

    @property
    def state_bytes(self) -> int:
        """The memory of the samples that outputs to come will see."""
        return self._held.nbytes

    def __call__(
        self,
        chunk: Array,
        out: NDArray | None = None,
        *,
        add: Array | None = None,
        add_after: Array | None = None,
    ) -> NDArray:
        """Return the outputs that the next samples complete, in ``out`` if given.

        ``chunk``: (N, C, n), or (N, n, C) with ``layout="NWC"``; without N for a batch of 1, and
        also without C where the layer has one channel. n may be any number, 0 too. The result is
        (N, M, m) or (N, m, M), without N if the chunk has none; m may be 0 with a stride, or at the
        beginning of layers that are not padded. ``add`` and ``add_after`` have its shape: see
        `winogen.conv2d`, which explains them and the errors. After an error the stream is what it
        was before.
        """
        layer = self._windows.whole
        x, batched = self._read(chunk)
        (axis,), along = layer.axes, self._along
        skipped = min(self._skipped, x.shape[along])
        held, come = self._held.shape[along], x.shape[along] - skipped
        joined, shape = self._other, self._shape(layer.channels, held + come)
        if joined is None or joined.shape != shape:
            joined = memory.empty(shape, x.dtype, "window")
        self._part(joined, 0, held)[...] = self._held
        self._part(joined, held, held + come)[...] = self._part(x, skipped, skipped + come)
        outputs = max(0, (held + come - axis.reach) // axis.stride + 1)
        if outputs:
            window = self._part(joined, 0, (outputs - 1) * axis.stride + axis.reach)
            terms = {"add": add, "add_after": add_after}
            y = self._windows(window if batched else window[0], out, **terms)
        else:
            y = self._nothing(batched, out)
        # Where strides are longer than filters, the next output may begin beyond what has come.
        first = outputs * axis.stride
        seen = min(first, held + come)
        self._held = self._part(joined, seen, held + come)
        self._buffer, self._other = joined, self._buffer
        if joined.nbytes > max(_KEPT, 2 * self._held.nbytes):
            self._held, self._buffer, self._other = self._held.copy(), None, None
        self._skipped += first - seen - skipped
        return y

    def _read(self, chunk: Any) -> tuple[np.ndarray, bool]:
        """The samples with all axes, and whether they came with that of the batch."""
        layer = self._windows.whole
        x = given = arguments.layer_array("chunk", chunk)
        arguments.same_dtype("chunk", x, self._windows.dtype, "the stream")
        if x.ndim == 1 and layer.channels == 1:
            x = x[None] if layer.planar else x[:, None]
        batched = x.ndim == 3
        x = x[None] if x.ndim == 2 else x
        if x.ndim != 3 or x.shape != self._shape(layer.channels, x.shape[self._along]):
            wanted = ", ".join(map(str, self._shape(layer.channels, "n")))
            alone = ", or without the first axis" if self._batch == 1 else ""
            raise InvalidValue(f"chunk: got shape {given.shape}; allowed: ({wanted}){alone}")
        return x, batched

    def _nothing(self, batched: bool, out: Any) -> NDArray:
        """No outputs."""
        shape = self._shape(self._windows.whole.filters, 0)
        shape = shape if batched else shape[1:]
        if out is not None and getattr(out, "shape", None) != shape:
            got = getattr(out, "shape", type(out).__name__)
            raise InvalidValue(f"out: got {got}; allowed: shape {shape}, as no output is complete")
        return np.empty(shape, self._windows.dtype) if out is None else out

    @property
    def _along(self) -> int:
        """The axis of time."""
        return 2 if self._windows.whole.planar else 1

    def _shape(self, channels: int, samples: Any) -> tuple[Any, ...]:
        planar = self._windows.whole.planar
        return (self._batch, channels, samples) if planar else (self._batch, samples, channels)

    def _part(self, array: np.ndarray, first: int, last: int) -> np.ndarray:
        return array[..., first:last] if self._along == 2 else array[:, first:last]


class SignalWindows(Convolution):
    """The layer of a stream without its padding, which computes windows of the signal.

    All of them run the kernel that the layer itself runs on a long signal.
    """

    rank = 1
    whole: Layer  # with its padding

    _STATE = (*Convolution._STATE, "whole")

    @classmethod
    def of(cls, layer: Convolution) -> SignalWindows:
        """Return it; raises InvalidValue and Unsupported where outputs depend on what comes later,
        or on how a signal is cut.
        """
        state = layer.__getstate__()
        whole, request = state["_layer"], state["_request"]
        _check(whole, request)
        (axis,) = whole.axes
        axes = (replace(axis, before=0, after=0),)
        asked = replace(request, algorithm="direct", tolerance=None)
        made = cls.__new__(cls)
        inner = {"_layer": replace(whole, axes=axes), "_request": asked, "whole": whole}
        made.__setstate__(state | inner)
        return made

    @property
    def dtype(self) -> np.dtype:
        """The type of samples and outputs."""
        return self._dtype

    def _executable(self, problem: Problem) -> Executable:
        long = long_signal(self.whole, problem)
        here = host_target(), current(), Environment.now()
        return _pinned(problem, long, self._request, *here)


def _check(layer: Layer, request: Request) -> None:
    (axis,) = layer.axes
    if axis.after:
        raise InvalidValue(
            f"padding: got {(axis.before, axis.after)}, with which outputs see samples to come; "
            'allowed: "causal", or padding before the signal only, for streams'
        )
    if axis.before and layer.padding_mode != "zeros":
        raise InvalidValue(
            f'padding_mode: got "{layer.padding_mode}"; allowed: "zeros" for streams'
        )
    if request.algorithm not in ("auto", "direct"):
        raise Unsupported(
            f'algorithm: got "{request.algorithm}"; allowed: "auto" or "direct" without tile, '
            "points and moduli for streams, as outputs of tiles depend on where the tiles begin"
        )
    precision = Precision.of(layer.dtype, request.filter_dtype, request.product_dtype)
    if precision.format.summing != "kept":
        raise Unsupported(
            f'product_dtype: got "{request.product_dtype}", whose numbers are scaled by what is in '
            "a piece; allowed: None or bfloat16 for streams"
        )


def long_signal(whole: Layer, piece: Problem) -> Problem:
    """Return the problem of a signal that is long, for the layer of a piece.

    ``whole``: that layer, with its padding. The signal goes along the last axis.
    """
    samples = whole.axes[-1].reach + _LONG * whole.stride[-1]
    size = (*piece.size[:-1], samples)
    shape = (whole.channels, *size) if whole.planar else (*size, whole.channels)
    return whole.problem((piece.batch, *shape)).sewn(piece.seams)


def pinned(
    problem: Problem, long: Problem, request: Request, target: Target, machine: Machine
) -> tuple[Candidate, Target]:
    """Return how a piece runs by the kernel of the long signal, and the target of that.

    ``request``: of direct convolution. Neither problem is one that could be folded. The bits of an
    output are then the same wherever pieces begin and end. Raises what `planner.rank` does.
    """
    first = planner.rank(Query.here(long, request, target, machine), 1)[0]
    (work,) = first.works(long)
    target = work.target
    choice = replace(first.choice, variant=work.variant, cut=None)
    # Of filters of one tap some kernels want whole vectors of outputs; all sum channel by channel.
    if not named(work.variant).serves(work_of(problem, choice, target)):
        choice = replace(choice, variant="")
    (candidate,) = evaluate(problem, [choice], target, machine, request.workspace_limit)
    return candidate, target


@remembered(256)
def _pinned(
    problem: Problem,
    long: Problem,
    request: Request,
    target: Target,
    machine: Machine,
    environment: Environment,
) -> Executable:
    """The problem bound to the kernel that the long one runs."""
    if problem.folded is not problem:
        asked = request.folded(problem.layer)
        maps = _pinned(problem.folded, long.folded, asked, target, machine, environment)
        query = Query(problem, request, maps.target, machine)
        return Folded(Offer(Folding(), query, maps.target, [maps.offer], request.threads), maps)
    candidate, target = pinned(problem, long, request, target, machine)
    return Prepared(problem, [candidate], target, environment)


class Streamed(Convolution):
    """The base of `Conv1d`: a layer that has streams."""

    def stream(
        self,
        batch: SupportsIndex = 1,
        dtype: ArrayType | None = None,
    ) -> Stream:
        """Return what applies the layer to a signal that arrives in pieces, of any lengths.

        For ``padding="causal"``, or padding before the signal only. ``batch``: signals side by
        side. ``dtype``: of the samples, by default the weights'. Outputs have the bits of this
        layer with ``algorithm="direct"`` on the whole signal. Raises InvalidValue and Unsupported.

        >>> import numpy as np, winogen
        >>> conv = winogen.Conv1d(np.ones((1, 1, 3), np.float32), padding="causal")
        >>> stream = conv.stream()
        >>> stream(np.ones(2, np.float32)).tolist(), stream(np.ones(2, np.float32)).tolist()
        ([[1.0, 2.0]], [[3.0, 3.0]])
        """
        return Stream(self._named(dtype)._windows, batch)

    @cached_property
    def _windows(self) -> SignalWindows:
        """What all streams of the layer compute with."""
        return SignalWindows.of(self)
