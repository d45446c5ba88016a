"""Inputs on which a model is compared with its copy: the example, other numbers, other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from winogen.errors import InvalidValue
from winogen.graph import whole
from winogen.tasks import limit
from winogen.torch.arrays import CHANNELS_LAST, memory_format
from winogen.torch.calling import Calls, CallStructure, clones
from winogen.torch.copies import identical, restored
from winogen.torch.tracing import SizeGuard

_SEED = 20
# What is added to heights and widths, or to half of them; all but the first are for models that
# want multiples.
_MORE = ((1, 2), (16, 32), (32, 64))
_LARGE = 32  # maps of so many rows and columns are halved
_LONG = 20.0  # runs of the model, about, that all takes: longer ones leave nothing of a limit
_LOUD = 4.0  # times as large as the example: what is cut off is cut off, then
PERTURBED = 1e-6  # relative to every number of an input
_MODES = "its results with the mode of gradients"
EXAMPLE = "the example"  # the name of its case
# Relative errors, of the largest number, that two orders of summation explain in a result.
ROUNDING = {torch.float32: 1e-5, torch.float64: 1e-13}


@dataclass(frozen=True)
class Case:
    """Tensors of a call, and the leaves and the structure of what the model made of them."""

    name: str
    tensors: list[Tensor]
    leaves: list[Any]
    structure: Any
    shared: Any = None  # which of the tensors and leaves have numbers in common, by their places

    @property
    def numbers(self) -> int:
        """How many numbers its tensors have."""
        return sum(tensor.numel() for tensor in self.tensors)


@dataclass(frozen=True)
class Witness:
    """What a model did and must do again: cases, and the state it keeps."""

    cases: list[Case]  # the example first, and a second time
    repeats: bool  # whether the same call gave the same numbers
    changes: list[str]  # what a call leaves otherwise than it was: state, or its arguments
    near: Callable[[], list[Any]]  # see `perturbed`
    rewrites: bool = False  # whether a call writes into parameters
    seconds: float = 0.0  # of a call with the example
    is_long: bool = False  # whether calls take so long that few are made
    earlier: str = ""  # what an earlier process compared besides

    @cached_property
    def perturbed(self) -> list[Any]:
        """The leaves of the example whose inputs were a little off: computed where it matters."""
        return self.near()

    def least(self, guard: SizeGuard | None) -> Case:
        """Return the case of fewest numbers, of those whose sizes a trace is ``guard``-ed for."""
        known = [one for one in self.cases if guard is None or guard.holds(one.tensors)]
        return min(known or self.cases[:1], key=attrgetter("numbers"))

    def __str__(self) -> str:
        names = ", ".join(dict.fromkeys(case.name for case in self.cases))
        return f"{names}; in an earlier process on {self.earlier}" if self.earlier else names


def seen(model: nn.Module, calls: Calls) -> Witness:
    """Run ``model``, a copy in evaluation mode, on the example alone; raises what it raises.

    Its state and all random generators are as before, then.
    """
    with torch.no_grad(), restored(model) as state:
        tensors = clones(calls.tensors)
        versions = [tensor._version for tensor in tensors]
        begin = limit.clock()
        case = Case(EXAMPLE, calls.tensors, *run(model, calls, tensors))
        seconds = limit.clock() - begin
        changes = state.changes()
        if [tensor._version for tensor in tensors] != versions:
            changes.append("its arguments")
    return Witness([case], True, changes, lambda: case.leaves, False, seconds)


def witnessed(
    model: nn.Module,
    calls: Calls,
    more: Sequence[list[Tensor]] = (),
    say: Callable[[str, float], object] = lambda name, seconds: None,
) -> Witness:
    """Run ``model``, a copy in evaluation mode, on the example and on what else it accepts.

    ``say`` is told the name of each case before it runs, and the seconds of a call, once known.

    Its state and all random generators are as before, then. Raises what the model raises on the
    example, and InvalidValue where it does not take ``more`` inputs.
    """
    with torch.no_grad(), restored(model) as state:
        tensors = clones(calls.tensors)
        versions = [tensor._version for tensor in tensors]
        first = Case(EXAMPLE, calls.tensors, *run(model, calls, tensors))
        changes = state.changes()
        if [tensor._version for tensor in tensors] != versions:
            changes.append("its arguments")
        begin = limit.clock()
        with torch.enable_grad():
            cases = [first, Case(EXAMPLE, calls.tensors, *run(model, calls))]
        seconds = limit.clock() - begin
        rewrites = bool(state.rewritten())
    repeats = _equals(first.leaves, cases[1].leaves)
    if not repeats:  # because of its state, its mode, or chance
        with restored(model), torch.enable_grad():
            leaves, structure, _ = run(model, calls)
        repeats = structure == first.structure and _alike(leaves, first.leaves)
        if not changes:
            with torch.no_grad(), restored(model):
                second = [run(model, calls)[0] for _ in range(2)][1]
            if not _equals(second, first.leaves):  # in one mode, the same call gives the same
                changes.append("what the next call returns")
            elif not repeats:
                changes.append(_MODES)
    asked = {f"more_inputs[{place}]": given for place, given in enumerate(more)}
    most = limit.limit().seconds
    is_long = most is not None and _LONG * seconds > most
    for name, others in chain(asked.items(), _others(calls.tensors, cases, is_long)):
        say(name, seconds)
        with torch.no_grad(), restored(model) as state:
            try:
                made = run(model, calls, clones(others))
            except Exception as problem:
                if name in asked:
                    raise InvalidValue(
                        f"{name}: got {described(others)}; allowed: what the model takes, which "
                        f"raised {type(problem).__name__}: {problem}"
                    ) from problem
                continue  # it takes no such sizes
            changes += [change for change in state.changes() if change not in changes]
            cases.append(Case(name, others, *made))
    # The smallest: it shows as much as the example.
    least = min(cases[1:], key=attrgetter("numbers"))
    with restored(model), torch.inference_mode():
        leaves, *_ = run(model, calls, clones(least.tensors))
    if not _alike(leaves, first.leaves if least is cases[1] else least.leaves):
        repeats = False
        if not changes:
            changes.append(_MODES)

    def near() -> list[Any]:
        with torch.no_grad(), restored(model):
            generator = torch.Generator().manual_seed(_SEED)
            tensors = [_near(tensor, generator) for tensor in calls.tensors]
            try:
                return run(model, calls, tensors)[0]
            except Exception:  # checks its arguments to the digit
                return first.leaves

    return Witness(cases, repeats, changes, near, rewrites, seconds, is_long)


def run(
    model: Any, calls: Calls, tensors: Sequence[Tensor] | None = None
) -> tuple[list, Any, set[tuple[int, int]]]:
    """Return leaves and structure of what a model makes of ``tensors``, else of the example's.

    The last are the pairs, among the tensors and the leaves, that have numbers in common.

    Random numbers are the same in every run.
    """
    torch.manual_seed(_SEED)
    tensors = clones(calls.tensors) if tensors is None else tensors
    args, kwargs = calls.arguments(tensors)
    leaves, structure = CallStructure.of(model(*args, **kwargs))
    # A model may go on to change what it returned.
    kept = [leaf.detach().clone() if type(leaf) is Tensor else leaf for leaf in leaves]
    return kept, structure, _shared([*tensors, *leaves])


def _shared(values: Sequence[Any]) -> set[tuple[int, int]]:
    """The places of tensors that see the same memory: to change one changes the other."""
    held: dict[int, list[tuple[int, Tensor]]] = {}
    for place, value in enumerate(values):
        if type(value) is Tensor and value.layout is torch.strided and value.numel():
            held.setdefault(value.untyped_storage().data_ptr(), []).append((place, value))
    pairs = (pair for some in held.values() for pair in combinations(some, 2))
    return {(i, j) for (i, one), (j, other) in pairs if _overlap(one, other)}


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors in one storage have a number in common; parts of a tensor have none."""
    if one is other or one.dtype != other.dtype:
        return True
    size = one.untyped_storage().nbytes() // one.element_size()
    seen = torch.zeros(size, dtype=torch.bool)
    for tensor in (one, other):
        places = seen.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        if tensor is other:
            return bool(places.any())
        places.fill_(True)
    raise AssertionError


def described(inputs: Sequence[Any]) -> str:
    """Return types and shapes of tensors, and what else there is."""
    return ", ".join(
        f"{one.dtype} {tuple(one.shape)}" if isinstance(one, Tensor) else str(one)[:40]
        for one in inputs
    )


def _others(
    tensors: Sequence[Tensor], accepted: Sequence[Case], is_long: bool
) -> Iterator[tuple[str, list[Tensor]]]:
    """Yield names and tensors; ``accepted`` grows by the cases that the model takes.

    Every call takes its time. So one has other numbers and the channels last, and one another batch
    and another size, where a model takes both at once. Where a call ``is_long``, large maps are
    halved in the first, too.
    """
    generator = torch.Generator().manual_seed(_SEED)
    maps = list(filter(_is_map, tensors))
    other = [_redrawn(tensor, generator) for tensor in tensors]
    ways = [("other content", other)]
    if maps:
        ways.insert(0, ("other content, channels last", list(map(_channels_last, other))))
        whole = maps[0].shape[-2:]
        halves = (size for size in _other_sizes(*whole) if is_long and size[0] < whole[0])
        ways = [
            (
                f"other content of {high}x{wide} pixels, channels last",
                list(map(_channels_last, _resized(tensors, generator, high, wide))),
            )
            for high, wide in halves
        ] + ways
    yield from _first(ways, accepted)
    if not maps:
        return
    batch, *_, height, width = maps[0].shape
    more = f"a batch of {batch + 1}"
    sizes = list(_other_sizes(height, width))
    if batch:
        both = (
            (f"{more} of {high}x{wide} pixels", _resized(tensors, generator, high, wide, batch))
            for high, wide in sizes
        )
        before = len(accepted)
        yield from _first(both, accepted)
        if len(accepted) > before:
            return
        yield more, [_one_more(t) if t.dim() and len(t) == batch else t for t in tensors]
    alone = (
        (f"{high}x{wide} pixels", _resized(tensors, generator, high, wide)) for high, wide in sizes
    )
    yield from _first(alone, accepted)


def _first(
    ways: Iterable[tuple[str, list[Tensor]]], accepted: Sequence[Case]
) -> Iterator[tuple[str, list[Tensor]]]:
    """Yield names and tensors until a model takes one."""
    before = len(accepted)
    for way in ways:
        if len(accepted) > before:
            return
        yield way


def _other_sizes(height: int, width: int) -> Iterator[tuple[int, int]]:
    """Sizes of maps: small ones are soon computed, but a model may want multiples or more."""
    for high, wide in _MORE if min(height, width) >= _LARGE else ():
        half = (height // 2 + high) // high * high, (width // 2 + wide) // wide * wide
        if half != (height, width):
            yield half
    for high, wide in _MORE:
        yield height + high, width + wide


def _resized(
    tensors: Sequence[Tensor], generator: torch.Generator, high: int, wide: int, batch: int = 0
) -> list[Tensor]:
    """Tensors whose maps have another size, and where they have this ``batch`` one image more."""
    height, width = next(filter(_is_map, tensors)).shape[-2:]
    changed = []
    for tensor in tensors:
        shape = list(tensor.shape)
        if _is_map(tensor):  # the depth of volumes changes with the rows
            shape[2:-1] = [max(1, size + high - height) for size in shape[2:-1]]
            shape[-1] = max(1, shape[-1] + wide - width)
        if batch and shape and shape[0] == batch:
            shape[0] += 1
        if _is_map(tensor):
            tensor = _LOUD * _redrawn(tensor, generator, shape)
        elif shape != list(tensor.shape):
            tensor = _one_more(tensor)
        changed.append(tensor)
    return changed


def _one_more(tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor[:1].flip(-1)])


def _channels_last(tensor: Tensor) -> Tensor:
    if tensor.dim() not in (4, 5):
        return tensor
    return tensor.contiguous(memory_format=memory_format(CHANNELS_LAST, tensor.dim()))


def _is_map(tensor: Tensor) -> bool:
    """Whether a tensor may be a map or volumes."""
    return tensor.dim() in (4, 5) and tensor.is_floating_point()


def alike(tensors: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Return tensors of the same sizes whose numbers are about as large: normal ones."""
    generator = torch.Generator().manual_seed(_SEED + seed)
    return [_redrawn(tensor, generator) for tensor in tensors]


def _redrawn(
    tensor: Tensor, generator: torch.Generator, shape: Sequence[int] | None = None
) -> Tensor:
    """Numbers of about the same size; what is no float is turned around."""
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor.flip(0) if tensor.dim() else tensor
    numbers = tensor.double()
    spread = float(numbers.std()) if tensor.numel() > 1 else 1.0
    drawn = torch.randn(shape or tensor.shape, generator=generator, dtype=torch.float64)
    return (drawn * spread + float(numbers.mean())).to(tensor.dtype)


def _near(tensor: Tensor, generator: torch.Generator) -> Tensor:
    if not tensor.is_floating_point():
        return tensor.clone()
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    return (tensor.double() * (1 + PERTURBED * noise)).to(tensor.dtype)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return identical(one, other)
    try:
        return bool(one == other)
    except Exception:  # what cannot be compared
        return False


def _equals(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(map(_equal, some, others))


def _alike(some: list[Any], others: list[Any]) -> bool:
    """Whether results are the same but for rounding.

    With gradients, torch computes an LSTM by other kernels than without: wide ones differ by 1e-6
    of the largest number. Both are right, and a copy may be off by as much anyway.
    """
    return len(some) == len(others) and all(map(_near_enough, some, others))


def _near_enough(one: Any, other: Any) -> bool:
    if _equal(one, other):
        return True
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        return False
    if other.dtype not in ROUNDING or {one.layout, other.layout} != {torch.strided}:
        return False
    return distance(one, other) <= ROUNDING[other.dtype]


def distance(one: Any, other: Tensor) -> float:
    """Return `winogen.graph.whole.distance` of tensors; infinite for other types, too."""
    if not isinstance(one, Tensor) or one.dtype != other.dtype:
        return float("inf")
    return whole.distance(*(tensor.detach().double().numpy() for tensor in (one, other)))
