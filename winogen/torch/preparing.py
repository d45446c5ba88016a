"""A model before it is handed out: ready for its sizes, and without what only making it needed."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from winogen.conv import memory
from winogen.errors import OutOfMemory
from winogen.graph import choose
from winogen.progress import counting
from winogen.torch.building import GRAPH
from winogen.torch.calling import Calls
from winogen.torch.copies import restored
from winogen.torch.optimized import Optimized
from winogen.torch.segment_op import SegmentModule


def prepare(
    made: Optimized,
    calls: Calls,
    more: Sequence[Sequence[Any]],
    threads: int | None,
    must_release: bool,
    is_bound: bool,
) -> None:
    """Plan and pack for the sizes of the example and of ``more`` inputs, and for no others.

    What the proof ran on other sizes is forgotten; ``is_bound``: it ran on the example alone.
    Weights that are to be released are so before; without room for a file they stay, unless they
    ``must_release``: then it raises OutOfMemory. The report says which inputs segments cannot take.
    """
    is_bound = is_bound and not made.winogen_released
    # Filters that stay are packed once.
    kept = [] if is_bound else [segment.forget() for segment in _segments(made)]
    if made.winogen_released:
        try:
            made.winogen_release()
        except OutOfMemory:
            if must_release:
                raise
            made.__dict__["winogen_released"] = False
    if made.winogen_report.segments:  # else all is torch's, and a call may change the weights
        if is_bound:
            made._readiness.learn(calls.tensors)
        _run(made, (calls.tensors, *more), calls, threads, int(is_bound))
    del kept


def tidy() -> None:
    """Give back to the system what making a model needed: traces, other plans, scratch memory."""
    gc.collect()  # traces are full of cycles
    choose.forget()
    # MKL keeps copies of whole filters of this thread's products in float64.
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    with suppress(OSError, AttributeError):  # of another system, or without MKL
        ctypes.CDLL(str(library)).mkl_serv_thread_free_buffers()
    memory.release()


def _run(
    made: Optimized,
    inputs: Sequence[Sequence[Any]],
    calls: Calls,
    threads: int | None,
    done: int,
) -> None:
    """Run on all inputs but the first, as many as are ``done``, and keep what that makes."""
    before, fast, refused = torch.get_num_threads(), made.winogen_fast, []
    torch.set_num_threads(threads or before)
    try:
        with made.winogen_tested(), torch.inference_mode(), counting("preparing sizes") as step:
            for place, tensors in list(enumerate(inputs))[done:]:
                step(place, len(inputs), " ".join(str(tuple(t.shape)) for t in tensors))
                with restored(made._winogen_model):
                    args, kwargs = calls.arguments([tensor.clone() for tensor in tensors])
                    _, reason = made.winogen_taken(fast, args, kwargs) if fast else ([], "")
                    made(*args, **kwargs)
                if reason:
                    refused.append(f"more_inputs[{place - 1}] ({reason})")
                _keep(made)
        _keep(made)
    finally:
        torch.set_num_threads(before)
    made.__dict__["winogen_report"] = replace(made.winogen_report, refused=tuple(refused))


def _keep(made: Optimized) -> None:
    for segment in _segments(made):
        segment.segment.keep()


def _segments(made: Optimized) -> Iterator[SegmentModule]:
    body: nn.Module | None = made.winogen_fast and made.winogen_fast.body
    if isinstance(body, torch.fx.GraphModule):
        for node in body.graph.nodes:
            node.meta.pop(GRAPH, None)  # for the proof, with weights
        yield from (module for module in body.modules() if isinstance(module, SegmentModule))
