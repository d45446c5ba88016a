"""Numbers for the test of a folder of floats, and what should come out."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from winogen.network.reading import Network, loaded
from winogen.onnx.probes import feed_of
from winogen.onnx.reference import Reference
from winogen.onnx.sensitivity import outputs_of

# Seeds of numbers: the usual one, and of those that no tolerance was chosen by.
USUAL, UNSEEN = 1, 5


def example(read: Network, seed: int = USUAL) -> tuple[Mapping[str, Any], list[Any], bool]:
    """Return numbers for the inputs, and the outputs; whether these are of float64.

    Signals are whole ones, of several pieces.
    """
    model, pieces = read.model, read.pieces
    if pieces is not None:
        model = loaded(pieces.cut.proto, pieces.cut.sizes(pieces.times))
    shapes = {array.name: array.shape for array in read.inputs}
    feed = feed_of(model, {**shapes, **model.fixed}, seed)
    reference = Reference(model, feed, 1)
    if reference.exact is not None:
        times = pieces.times if pieces else 1
        ends = np.cumsum([times * prod(array.shape) for array in read.outputs])[:-1]
        whole = zip(read.outputs, np.split(reference.exact, ends))
        return feed, [y.reshape(*a.shape[:-1], -1) for a, y in whole], True
    names = [array.name for array in read.outputs]
    return feed, outputs_of(model.proto, names, feed), False
