"""What onnxruntime measures where a model's output has a tolerance: gains of layers, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from winogen.graph import Graph, cut, promise
from winogen.graph.settings import Settings
from winogen.graph.shapes import Shape
from winogen.onnx.forms import FORMS
from winogen.onnx.loading import new_session
from winogen.onnx.model import Model
from winogen.onnx.probes import Feed, feed_of, usual_sizes
from winogen.onnx.proof import Exposed
from winogen.onnx.reading import Reading
from winogen.onnx.reference import Reference
from winogen.onnx.whole import disturbed
from winogen.toolchain import host_target
from winogen.toolchain.machine import current

_NOISE = 1e-3  # of a layer, relative to its output: small enough that nets are about linear
# Inputs are of both signs and, of even seeds, between 0 and 1, as pictures are: what is measured in
# any case, and as far as there is time.
_SEEDS, _MORE = (1, 2), (3, 4)


def gains_of(model: Model, names: Iterable[str], feed: Feed) -> dict[str, float]:
    """Return the gains of values of a model of known sizes: see `winogen.graph.promise.gains_of`.

    Noise is added to each in turn, for one input. All are missing where the model does not run.
    """
    is_late = promise.part_of_limit()
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

    def moved(name: str, draw: int) -> tuple[list[Any], float]:
        value = noisy[name]
        spread = _NOISE * float(np.sqrt(np.mean(np.square(value, dtype=np.float64))))
        drawn = spread * np.random.default_rng(draw).standard_normal(value.shape)
        return session.run(
            None, {**feed, **nothing, errors[name]: drawn.astype(value.dtype)}
        ), _NOISE

    return promise.gains_of(noisy, session.run(None, {**feed, **nothing}), moved, is_late)


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


class UnseenFeeds:
    """A model's outputs in float64 and by onnxruntime, on several inputs of its usual sizes."""

    def __init__(
        self, model: Model, reference: Reference, seeds: Sequence[int] = (*_SEEDS, *_MORE)
    ):
        """``seeds``: of the numbers; as many as there is time for, two at least."""
        self._cases: list[promise.Unseen] = []
        is_late = promise.part_of_limit()
        if reference.original is None:
            return
        for seed in seeds:
            if is_late() and len(self._cases) >= len(_SEEDS):
                break
            feed = feed_of(model, usual_sizes(model), seed)
            exact = reference.doubled(feed)
            if exact is None:
                return
            theirs = reference.original.session.run(None, feed)
            if promise.output_error(theirs, exact) is not None:
                self._cases.append(promise.Unseen(feed, theirs, exact))

    @property
    def feeds(self) -> list[Feed]:
        """The inputs, in the order in which `promise` asks for their outputs."""
        return [case.given for case in self._cases]

    def promise(
        self, run: Callable[[Feed], Sequence[Any]] | None, asked: float, predicted: float = 0.0
    ) -> promise.OutputPromise | None:
        """Return the errors at the outputs that ``run`` makes; None: of the original itself.

        None where no input has known ones.
        """
        return promise.promised(self._cases, run, asked, predicted)
