"""Inputs on which a model is compared with its copy: the example, other numbers, other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, pairwise
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from winogen.errors import InvalidValue
from winogen.graph import whole
from winogen.tasks import limit
from winogen.torch.calling import Calls, CallStructure, clones
from winogen.torch.copies import identical, restored
from winogen.torch.inputs import SEED, near, others
from winogen.torch.tracing import SizeGuard

_LONG = 20.0  # runs of the model, about, that all takes: longer ones leave nothing of a limit
_SHORT = 1 / 40  # of a limit, which a run of the smaller cases may take
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
    is_second: bool = False  # whether it is the case before it again, in the state that this left

    @property
    def numbers(self) -> int:
        """How many numbers its tensors have."""
        return sum(tensor.numel() for tensor in self.tensors)


@dataclass(frozen=True)
class Witness:
    """What a model did and must do again: cases, and the state it keeps."""

    cases: list[Case]  # the example first; one of them twice
    repeats: bool  # whether the same call gave the same numbers
    changes: list[str]  # what a call leaves otherwise than it was: state, or its arguments
    near: Callable[[], list[Any]]  # see `perturbed`
    rewrites: bool = False  # whether a call writes into parameters
    seconds: float = 0.0  # of a call with the example
    is_long: bool = False  # whether calls take so long that few are made
    earlier: str = ""  # what an earlier process compared besides

    @property
    def distinct(self) -> list[Case]:
        """The cases without the second one of two."""
        return [case for case in self.cases if not case.is_second]

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


def _first(model: nn.Module, calls: Calls, state: Any) -> tuple[Case, float, list[str]]:
    """The example as a model computes it, the seconds of that, and what it leaves otherwise."""
    tensors = clones(calls.tensors)
    versions = [tensor._version for tensor in tensors]
    begin = limit.clock()
    case = Case(EXAMPLE, calls.tensors, *run(model, calls, tensors))
    seconds = limit.clock() - begin
    changes = state.changes()
    if [tensor._version for tensor in tensors] != versions:
        changes.append("its arguments")
    return case, seconds, changes


def seen(model: nn.Module, calls: Calls) -> Witness:
    """Run ``model``, a copy in evaluation mode, on the example alone; raises what it raises.

    Its state and all random generators are as before, then.
    """
    with torch.no_grad(), restored(model) as state:
        case, seconds, changes = _first(model, calls, state)
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
    most = limit.limit().seconds

    def second(case: Case) -> Case:
        with torch.enable_grad():
            made = run(model, calls, clones(case.tensors))
        return Case(case.name, case.tensors, *made, is_second=True)

    def is_too_long(seconds: float) -> bool:
        return most is not None and _LONG * seconds > most

    with torch.no_grad(), restored(model) as state:
        first, seconds, changes = _first(model, calls, state)
        cases = [first]
        is_long = is_too_long(seconds)
        if not is_long:
            begin = limit.clock()
            cases.append(second(first))
            seconds = limit.clock() - begin
        rewrites = bool(state.rewritten())
    sides = 1
    if most is not None and is_long:
        sides = 2 if seconds / 4 <= _SHORT * most else 4
    asked = {f"more_inputs[{place}]": tensors for place, tensors in enumerate(more)}
    for name, tensors in chain(asked.items(), others(calls.tensors, cases, sides)):
        say(name, seconds)
        with torch.no_grad(), restored(model) as state:
            begin = limit.clock()
            try:
                made = run(model, calls, clones(tensors))
            except Exception as problem:
                if name in asked:
                    raise InvalidValue(
                        f"{name}: got {described(tensors)}; allowed: what the model takes, which "
                        f"raised {type(problem).__name__}: {problem}"
                    ) from problem
                continue  # it takes no such sizes
            changes += [change for change in state.changes() if change not in changes]
            taken = limit.clock() - begin
            case = Case(name, tensors, *made)
            cases.append(case)
            if any(one.is_second for one in cases):
                continue
            # What took long may have been the first call alone, not the model.
            is_long = is_long and is_too_long(taken * first.numbers / max(1, case.numbers))
            if is_long and name not in asked:
                cases.append(second(case))
    if not any(case.is_second for case in cases):
        with torch.no_grad(), restored(model):
            run(model, calls, clones(first.tensors))
            begin = limit.clock()
            cases.insert(1, second(first))
            seconds = limit.clock() - begin
    one, other = next(pair for pair in pairwise(cases) if pair[1].is_second)
    repeats = _equals(one.leaves, other.leaves)
    if not repeats:  # because of its state, its mode, or chance
        with restored(model), torch.enable_grad():
            leaves, structure, _ = run(model, calls, clones(one.tensors))
        repeats = structure == one.structure and _alike(leaves, one.leaves)
        if not changes:
            with torch.no_grad(), restored(model):
                leaves = [run(model, calls, clones(one.tensors))[0] for _ in range(2)][1]
            if not _equals(leaves, one.leaves):  # in one mode, the same call gives the same
                changes.append("what the next call returns")
            elif not repeats:
                changes.append(_MODES)
    # The smallest: it shows as much as the example.
    least = min((case for case in cases if not case.is_second), key=attrgetter("numbers"))
    with restored(model), torch.inference_mode():
        leaves, *_ = run(model, calls, clones(least.tensors))
    if not _alike(leaves, least.leaves):
        repeats = False
        if not changes:
            changes.append(_MODES)

    def leaves_nearby() -> list[Any]:
        with torch.no_grad(), restored(model):
            generator = torch.Generator().manual_seed(SEED)
            tensors = [near(tensor, generator) for tensor in calls.tensors]
            try:
                return run(model, calls, tensors)[0]
            except Exception:  # checks its arguments to the digit
                return first.leaves

    return Witness(cases, repeats, changes, leaves_nearby, rewrites, seconds, is_long)


def run(
    model: Any, calls: Calls, tensors: Sequence[Tensor] | None = None
) -> tuple[list, Any, set[tuple[int, int]]]:
    """Return leaves and structure of what a model makes of ``tensors``, else of the example's.

    The last are the pairs, among the tensors and the leaves, that have numbers in common.

    Random numbers are the same in every run.
    """
    torch.manual_seed(SEED)
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
