"""What onnxruntime measures where a model's output has a tolerance: gains of layers, errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from winogen.graph import Graph, cut
from winogen.graph.promise import PART, Promise, distance, draws_of
from winogen.graph.settings import Settings
from winogen.graph.shapes import Shape
from winogen.onnx.forms import FORMS
from winogen.onnx.loading import new_session
from winogen.onnx.model import Model
from winogen.onnx.probes import Feed, feed_of, usual_sizes
from winogen.onnx.proof import Exposed
from winogen.onnx.reading import Reading
from winogen.onnx.reference import Reference, Running
from winogen.onnx.whole import disturbed
from winogen.tasks.limit import clock, limit
from winogen.toolchain import host_target
from winogen.toolchain.machine import current

_NOISE = 1e-3  # of a layer, relative to its output: small enough that nets are about linear
# Inputs are of both signs and, of even seeds, between 0 and 1, as pictures are: what is measured in
# any case, and as far as there is time.
_SEEDS, _MORE = (1, 2), (3, 4)


def gains_of(model: Model, names: Iterable[str], feed: Feed) -> dict[str, float]:
    """Return how many times a layer's relative L2 error is the error that an output has from it.

    ``names`` are values of a model of known sizes. Noise is added to each in turn, for one input.
    The output that moves most counts. Those that are no values of floats are missing, as are those
    that a part of the limit of seconds leaves no time for; all, where the model does not run.
    """
    begin, most = clock(), limit().seconds
    made = {name for node in model.graph.node for name in node.output}
    try:
        values = Exposed(model, [name for name in names if name in made]).run(feed)
        noisy = {n: values[n] for n in names if n in made and values[n].dtype.kind == "f"}
        proto, errors = disturbed(model, noisy)
        session = new_session(proto, optimized=False)
    except Exception:  # onnxruntime's own kinds of errors
        return {}
    # One number stands for a whole map of zeros.
    nothing = {errors[n]: np.zeros((1,) * x.ndim, x.dtype) for n, x in noisy.items()}
    clean = session.run(None, {**feed, **nothing})
    found: dict[str, float] = {}
    for name, value in noisy.items():
        if most is not None and clock() - begin > PART * most:
            break
        spread = _NOISE * float(np.sqrt(np.mean(np.square(value, dtype=np.float64))))
        squares = np.zeros(len(clean))
        draws = draws_of(y.size for y in clean if _is_real(y))
        for draw in range(draws):
            drawn = spread * np.random.default_rng(draw).standard_normal(value.shape)
            moved = session.run(None, {**feed, **nothing, errors[name]: drawn.astype(value.dtype)})
            squares += (
                np.square(
                    [distance(y, e) / _NOISE if _is_real(e) else 0.0 for y, e in zip(moved, clean)]
                )
                / draws
            )
        found[name] = float(np.sqrt(squares.max(initial=0.0)))
    return found


def sized_parts(model: Model, reading: Reading, graph: Graph) -> list[tuple[Graph, list[Shape]]]:
    """Return the segments of a simplified graph with the sizes of what they read, where known."""
    parts = []
    for piece in cut(graph):
        sizes = [model.sizes.get(name, ()) for name in piece.graph.inputs]
        if piece.ours and all(size and all(one.known for one in size) for size in sizes):
            shapes = [tuple(one.number for one in size) for size in sizes]
            for place, name in enumerate(piece.graph.inputs):
                if name in reading.forms:
                    form = FORMS[reading.forms[name]]
                    shapes[place] = form.map_sizes(shapes[place], 1)
            parts.append((piece.graph, shapes))
    return parts


def settings_of(
    model: Model, reading: Reading, threads: int = 1, tolerance: float | None = None
) -> Settings:
    """Return what all layers of a model have in common."""
    dtype = "float32" if reading.kind == model.onnx.TensorProto.FLOAT else "float64"
    return Settings("NCHW", dtype, threads, tolerance, "auto", host_target(), current())


class _Case(NamedTuple):
    feed: Feed
    theirs: list[Any]  # the outputs of onnxruntime
    exact: list[Any]  # the same in float64


class Unseen:
    """A model's outputs in float64 and by onnxruntime, on several inputs of its usual sizes."""

    def __init__(self, model: Model, reference: Reference):
        self._cases: list[_Case] = []
        begin, most = clock(), limit().seconds
        if reference.original is None:
            return
        for seed in (*_SEEDS, *_MORE):
            late = most is not None and clock() - begin > PART * most
            if late and seed in _MORE:
                break
            feed = feed_of(model, usual_sizes(model), seed)
            exact = reference.doubled(feed)
            if exact is None:
                return
            theirs = reference.original.session.run(None, feed)
            if _off(theirs, exact) is not None:
                self._cases.append(_Case(feed, theirs, exact))

    def promise(
        self, running: Running | None, asked: float, predicted: float = 0.0
    ) -> Promise | None:
        """Return the errors at the outputs; ``running`` None: of the original itself.

        None where no input has known ones.
        """
        if not self._cases:
            return None
        theirs = max(_off(case.theirs, case.exact) or 0.0 for case in self._cases)
        if running is None:
            return Promise(asked, theirs, theirs, len(self._cases))
        ours = [_off(running.session.run(None, case.feed), case.exact) for case in self._cases]
        worst = max(float("inf") if off is None else off for off in ours)
        return Promise(asked, worst, theirs, len(self._cases), predicted)


def _off(outputs: Sequence[Any], exact: Sequence[Any]) -> float | None:
    """The error of the worst output of floats; None where there is none, or it is not known."""
    pairs = [(y, e) for y, e in zip(outputs, exact) if _is_real(y)]
    if not pairs or any(y.shape != e.shape or not np.isfinite(e).all() for y, e in pairs):
        return None
    return max(distance(y, e) for y, e in pairs)


def _is_real(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 0
