"""Steps that run in NHWC between arrays of the caller in NCHW, where this is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from winogen.graph.lower import Step
from winogen.graph.ops import Relayout
from winogen.graph.places import Buffer, Place
from winogen.graph.relayout import is_needed
from winogen.graph.shapes import Shape


def channels_last(
    steps: Sequence[Step], buffers: Mapping[Buffer, Shape]
) -> tuple[list[Step], dict[Buffer, Shape], int]:
    """Return the steps in NHWC for a caller whose arrays are in NCHW.

    All maps that steps read or write there move into memory of the segment: inputs are brought into
    the other layout first, outputs at the end. Returns all buffers, too, and how many steps come
    before the given ones.
    """
    shapes: dict[Buffer, Shape] = dict(buffers)
    inner: dict[Buffer, Buffer] = {}  # in NHWC, of the caller's
    first = 1 + max((number for kind, number in buffers if kind == "arena"), default=-1)
    for step in steps:
        for place in (*step.reads, step.output):
            buffer = place.buffer
            if buffer[0] != "arena" and buffer not in inner and is_needed(buffers[buffer]):
                inner[buffer] = ("arena", first + len(inner))
                shapes[inner[buffer]] = buffers[buffer]

    def moved(place: Place) -> Place:
        return place._replace(buffer=inner.get(place.buffer, place.buffer))

    def turned(buffer: Buffer) -> Step:
        outside, inside = (Place(b, 0, buffers[buffer][1]) for b in (buffer, inner[buffer]))
        op = Relayout("NCHW" if buffer[0] == "input" else "NHWC")
        ends = (outside, inside) if buffer[0] == "input" else (inside, outside)
        name = f"{buffer[0]} {buffer[1]}, {op}"
        return Step(name, name, op, buffers[buffer], *ends)

    within = [
        replace(
            step,
            input=moved(step.input),
            output=moved(step.output),
            add=step.add and moved(step.add),
            add_after=step.add_after and moved(step.add_after),
            others=tuple(map(moved, step.others)),
        )
        for step in steps
    ]
    before = [turned(buffer) for buffer in inner if buffer[0] == "input"]
    after = [turned(buffer) for buffer in inner if buffer[0] == "output"]
    return [*before, *within, *after], shapes, len(before)
