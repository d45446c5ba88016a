"""Random graphs of every rank through `winogen.torch.optimize`: what the original does, it does.

    python tests/torch/fuzz_graphs.py --graphs 1000 --seed 1

Each is called with its example, twice, other batches and sizes, channels last, strided, and empty,
and compared in structure, types, numbers, where outputs share memory and whether they are
contiguous, and in gradients. A graph follows from the seed and its index, which are printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

import torch
from alike import ABSOLUTE, compared, outcome, tensors, trace
from fuzz_nets import GRADIENT, prepare
from random_graphs import Made

import winogen.torch
from winogen.testing import every_layer

Calls = Iterator[tuple[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]]]
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def calls_of(shape: tuple[int, ...]) -> Calls:
    """Calls with inputs like an example of this shape, and unlike it."""

    def call(*sizes: int, laid: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> Any:
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(sizes, generator=generator)
        return lambda: ((laid(x.clone()),), {})

    batch, channels, *size = shape
    yield "first call", call(*shape)
    yield "second call", call(*shape)
    yield "another batch", call(batch + 1, channels, *size)
    yield "another size", call(batch, channels, *(n + 1 for n in size))
    if len(shape) in _LAST:
        form = _LAST[len(shape)]
        yield "channels last", call(*shape, laid=lambda x: x.contiguous(memory_format=form))
    yield "strided", call(*shape, laid=_strided)
    yield "empty batch", call(0, channels, *size)
    yield "by name", lambda: ((), {"x": torch.ones(shape)})
    yield "with more", lambda: ((torch.ones(shape), torch.ones(1)), {})
    yield "float64", call(*shape, laid=torch.Tensor.double)
    yield "the example again", call(*shape)


def _strided(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, every other one of a larger memory."""
    around = x.new_full((*x.shape[:-1], 2 * x.shape[-1]), 7.0)
    around[..., ::2] = x
    return around[..., ::2]


def check(made: Made) -> list[str]:
    """Return what is wrong with a graph."""
    original, given = made.model().eval(), made.model()
    (example,), _ = next(calls_of(made.shape))[1]()
    with torch.no_grad():
        if outcome(original, example.clone()).error is not None:
            return []  # a change in place that autograd or overlapping memory forbids
    kept = example.clone()
    numbers = {name: t.detach().clone() for name, t in given.state_dict().items()}
    with every_layer():
        fast = outcome(winogen.torch.optimize, given, example)
    if fast.error is not None:
        return [f"optimize {fast}\n{trace(fast.error)}"]
    if not torch.equal(example, kept) or not all(
        torch.equal(t, numbers[name]) for name, t in given.state_dict().items()
    ):
        return ["optimize changed the example or the model"]
    if not all(module.training for module in given.modules()):
        return ["optimize changed the mode"]
    exact = outcome(lambda: made.model().eval().double()).value
    original = made.model().eval()
    for what, make in calls_of(made.shape):
        with torch.no_grad():
            wrong = compared(fast.value, original, make, exact)
            wrong = wrong or _of_memory(fast.value, original, make, what != "channels last")
        if wrong:
            return [f"{what}: {wrong}"]
    if made.gradient:
        (x,), _ = next(calls_of(made.shape))[1]()
        wrong = _gradient(fast.value, original, x)
        return [f"gradient: {wrong}"] if wrong else []
    return []


def _gradient(ours: Any, theirs: Any, x: torch.Tensor) -> str | None:
    """Return what is wrong with the gradient of the input, of outputs with different weights."""
    theirs.requires_grad_(False)
    found = []
    for model in (theirs, ours):
        given = x.clone().requires_grad_()

        def gradient(model: Any = model, given: torch.Tensor = given) -> torch.Tensor | None:
            every = [t.double() for t in tensors(model(given)) if t.requires_grad]
            if not every:
                return None
            weights = [torch.linspace(1, 2, t.numel()).view(t.shape).sin() for t in every]
            total = sum((one * weight).sum() for one, weight in zip(every, weights))
            return torch.autograd.grad(total, given, allow_unused=True)[0]

        found.append(outcome(gradient))
    right, mine = found
    if right.error is not None:
        return None
    if mine.error is not None:
        return f"{mine}, the original {right}\n{trace(mine.error)}"
    if right.value is None or mine.value is None:
        return None if right.value is mine.value else "one has none"
    error, size = (mine.value - right.value).norm(), right.value.norm()
    return None if error <= GRADIENT * size + ABSOLUTE else f"off by {error:.2g} of {size:.2g}"


def _of_memory(ours: Any, theirs: Any, make: Callable[[], Any], planar: bool) -> str | None:
    """Return where outputs share other memory than the original's, or, of ``planar`` inputs, are
    not contiguous.
    """
    found = []
    for model in (theirs, ours):
        args, kwargs = make()
        made = outcome(model, *args, **kwargs)
        if made.error is not None:
            return None
        every = [*tensors(made.value), *tensors([args, kwargs])]
        places = [t.untyped_storage().data_ptr() if t.numel() else 0 for t in every]
        shared = [places.index(one) if one else -1 for one in places]
        found.append((shared, [t.is_contiguous() for t in tensors(made.value)]))
    (shared, whole), (other, own) = found
    if shared != other:
        return f"outputs and inputs share memory as {other} instead of {shared}"
    if planar and any(one and not mine for one, mine in zip(whole, own)):
        return f"outputs are contiguous as {own} instead of {whole}"
    return None


def run(seed: int, index: int) -> tuple[list[str], str]:
    """Return what is wrong with a graph, and its text."""
    torch.manual_seed(0)
    made = Made(seed, index)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return check(made), made.source
    except Exception as error:
        return [f"the check itself: {error}\n{trace(error)}"], made.source


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="index of the first graph")
    parser.add_argument("--show", action="store_true", help="print the text of graphs that fail")
    asked = parser.parse_args()
    os.environ.setdefault("WINOGEN_CALIBRATE", "0")  # the same plans on every machine
    os.environ.setdefault("WINOGEN_PROGRESS", "0")
    prepare(quickly=True)
    count, begin = 0, time.perf_counter()
    for index in range(asked.first, asked.first + asked.graphs):
        wrong, source = run(asked.seed, index)
        if wrong:
            count += 1
            print(
                f"python tests/torch/fuzz_graphs.py --seed {asked.seed} --first {index} --graphs 1"
            )
            print("  " + "\n  ".join(wrong).strip().replace("\n", "\n    "))
            print(source if asked.show else "", flush=True)
        if (index + 1) % 20 == 0:
            done = index + 1 - asked.first
            rate = done / (time.perf_counter() - begin)
            print(f"{done} graphs, {count} wrong, {rate:.2f} a second", file=sys.stderr, flush=True)
    print(f"{asked.graphs} graphs, {count} wrong")
    return count > 0


if __name__ == "__main__":
    sys.exit(main())
