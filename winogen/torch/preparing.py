"""A model before it is handed out: ready for its sizes, and without what only making it needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from winogen.conv import memory
from winogen.progress import counting
from winogen.torch.building import GRAPH
from winogen.torch.calling import Calls
from winogen.torch.copies import restored
from winogen.torch.module import Conv2d
from winogen.torch.optimized import Optimized
from winogen.torch.releasing import released, released_graph
from winogen.torch.segment_op import SegmentModule


def prepare(
    made: Optimized, calls: Calls, more: Sequence[Sequence[Any]], threads: int | None
) -> None:
    """Plan and pack for the sizes of the example and of ``more`` inputs, and for no others.

    What the proof ran on other sizes is forgotten. Where ``made`` is to release its weights, they
    move into a file before.
    """
    if made.winogen_released:
        release(made)
    kept = [segment.forget() for segment in _segments(made)]  # filters that stay are packed once
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        with made.winogen_tested(), torch.inference_mode(), counting("preparing sizes") as step:
            for place, tensors in enumerate((calls.tensors, *more)):
                step(place, 1 + len(more), " ".join(str(tuple(t.shape)) for t in tensors))
                with restored(made.winogen_model):
                    args, kwargs = calls.arguments([tensor.clone() for tensor in tensors])
                    made(*args, **kwargs)
    finally:
        torch.set_num_threads(before)
    del kept
    memory.release()


def release(made: Optimized) -> None:
    """Move into a file the weights that kernels have in packed form, and that torch never reads."""
    if made.winogen_fast is None:
        ours = [m.weight for m in made.winogen_model.modules() if type(m) is Conv2d]
    else:
        used = {id(tensor) for tensor in made.winogen_fast.body.parameters()}
        ours = [t for t in made.winogen_model.parameters() if id(t) not in used]
        for segment in _segments(made):
            segment.forget()
            segment.segment.graph = released_graph(segment.segment.graph)
    released(ours)
    made._watch()


def _segments(made: Optimized) -> Iterator[SegmentModule]:
    body: nn.Module | None = made.winogen_fast and made.winogen_fast.body
    if isinstance(body, torch.fx.GraphModule):
        for node in body.graph.nodes:
            node.meta.pop(GRAPH, None)  # for the proof, with weights
        yield from (module for module in body.modules() if isinstance(module, SegmentModule))
