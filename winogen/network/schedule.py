"""A network planned for a target: which kernels, which strips, and where in the arena all lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from winogen.conv import planner
from winogen.conv.choice import multiplications
from winogen.conv.clocks import unmeasured
from winogen.conv.cuts import Candidate
from winogen.conv.problem import Problem
from winogen.errors import InvalidValue
from winogen.graph.chains import Chain, strip_problem
from winogen.graph.choose import norm_error_of
from winogen.graph.layouts import channels_last
from winogen.graph.lower import Step, lower
from winogen.graph.memory import Life, least, offsets
from winogen.graph.places import Buffer
from winogen.graph.planning import Planned, lives_of, plan_steps
from winogen.graph.settings import Settings
from winogen.graph.shapes import shapes
from winogen.graph.strips import Compute
from winogen.kernels import Work
from winogen.kernels.spec import KernelSpec
from winogen.kernels.work import round_up
from winogen.network.reading import Network
from winogen.records import Target
from winogen.records.machine import LINE

_ITEM = 4  # bytes of a number
_MEMORY = "shared_bytes", "thread_bytes"  # the fields of a kernel that say what it works in


class Kernel(NamedTuple):
    """A kernel for one call; equal layers, and equal strips of a layer, share it."""

    spec: KernelSpec
    fields: Mapping[str, Any]
    problem: Problem
    work: Any
    choice: Any


@dataclass(frozen=True)
class Schedule:
    """A plan, the kernels of its steps and of its strips, and the arena."""

    planned: Planned
    kernels: tuple[tuple[Kernel, ...], ...]  # of each step; none of what only moves numbers
    strips: Mapping[int, tuple[Kernel | None, ...]]  # of each job of a chain, by its first step
    begins: Mapping[Buffer, int]  # of buffers of the arena, in bytes
    workspaces: tuple[int, ...]  # where that of each step begins
    arena_bytes: int
    least_bytes: int  # that any arena needs: what is alive at the same time
    # Whether threads are the caller's, each of which runs a part of every step, and what each part
    # needs of the arena: its bytes are those of one part.
    shared: bool = False
    part_bytes: int = 0

    @property
    def ways(self) -> str:
        """A name of how every layer runs."""
        return repr((self.planned.settings.layout, self._convolutions))

    @property
    def errors(self) -> dict[str, float]:
        """The errors that are predicted of layers, in the L2 norm, by what they make."""
        found: dict[str, float] = {}
        target = self.planned.settings.target
        for step, problem, some in zip(
            self.planned.steps, self.planned.problems, self.planned.choices
        ):
            if problem is not None:
                error = norm_error_of(problem, some.ways[0].candidate, target)
                found[step.key] = max(error, found.get(step.key, 0.0))
        return found

    @property
    def predicted_error(self) -> float:
        """Of the outputs, relative to the largest: as if errors of layers met as random numbers."""
        target = self.planned.settings.target
        errors = [
            planner.predicted_error(problem.layer, choice, target)
            for problem, choice in self._convolutions
        ]
        steps = self.planned.steps
        errors += [step.op.loops.error for step in steps if step.op.loops is not None]
        return sqrt(sum(error**2 for error in errors))

    @property
    def products(self) -> tuple[int, int]:
        """Multiplications between operands of all convolutions: as planned, and by direct ones."""
        planned = sum(multiplications(problem, choice) for problem, choice in self._convolutions)
        return planned, sum(problem.direct_multiplications for problem, _ in self._convolutions)

    @property
    def _convolutions(self) -> list[tuple[Problem, Any]]:
        """The problem of each convolution, and how it is computed."""
        both = zip(self.planned.problems, self.planned.choices)
        return [(problem, some.ways[0].candidate.choice) for problem, some in both if problem]


def settings_of(
    target: Target,
    *,
    tolerance: float | None = None,
    algorithm: str = "auto",
    workspace_limit: int | None = None,
    filter_dtype: str | None = None,
    threads: int | None = None,
    tolerances: Mapping[str, float] | None = None,
) -> Settings:
    """Return what all layers have in common; ``tolerances``: of single ones, by what they make.

    The machine is the default one: the same wherever files are made.
    """
    return Settings(
        layout="NCHW",
        dtype="float32",
        threads=threads or 1,
        tolerance=tolerance,
        algorithm=algorithm,
        target=target,
        machine=unmeasured(target, waits=threads is None),
        workspace_limit=workspace_limit,
        filter_dtype=filter_dtype,
        tolerances=tuple((tolerances or {}).items()),
    )


def schedule(
    network: Network, target: Target, *, threads: int | None = None, **options: Any
) -> Schedule:
    """Return the plan of a network on one thread, in the layout that is predicted to be faster.

    ``threads``: of the caller, each of which runs a part of every step. ``options``: those of
    `settings_of`.

    Raises InvalidValue, and Unsupported for an algorithm that some layer does not have.
    """
    settings = settings_of(target, threads=threads, **options)
    if network.pieces is not None:
        settings = replace(settings, algorithm="direct", pieces=True)
    values = shapes(network.graph, dict(zip(network.graph.inputs, network.maps)))
    outputs = [values[name] for name in network.graph.outputs]
    steps, buffers = lower(network.graph, values, np.dtype(np.float32))
    if settings.pieces:  # in the layout of streams, which have their bits, and in no strips
        return _laid(plan_steps(steps, buffers, outputs, settings), shared=threads is not None)
    last, turned, _ = channels_last(steps, buffers)
    layouts = [(steps, buffers, settings), (last, turned, replace(settings, layout="NHWC"))]
    ways: list[Planned] = []
    problem: InvalidValue | None = None
    for some, places, how in layouts:
        try:
            ways.append(plan_steps(some, places, outputs, how))
        except InvalidValue as refusal:  # a limit that only the other layout keeps
            problem = refusal
    if not ways:
        assert problem is not None
        raise problem
    best = min(ways, key=lambda way: way.seconds)
    if threads is not None:
        return _laid(best, shared=True)
    # All strips that are predicted to be faster: they need less of the arena besides.
    return _laid(best.with_chains(best.possible))


def _laid(planned: Planned, shared: bool = False) -> Schedule:
    """The arena of a plan; ``shared``: kernels work behind all else, each part in a slice."""
    chained = {number for chain in planned.chains for number in chain.numbers}
    kernels = tuple(
        () if number in chained else _kernels(step, planned, number)
        for number, step in enumerate(planned.steps)
    )
    strips = {chain.first: _strips(planned, chain) for chain in planned.chains}
    lives = lives_of(planned.steps, planned.rooms, planned.chains, _ITEM)
    everything, each = [*lives.values()], 0
    if shared:
        every = [one for some in kernels for one in some]
        each = max((sum(one.fields[size] for size in _MEMORY) for one in every), default=0)
    else:
        # What kernels work in: those of a chain take turns, from its first strip to its last.
        spans = {chain.first: (chain.numbers[0], chain.numbers[-1]) for chain in planned.chains}
        everything += [
            Life(
                _workspace_bytes((*some, *strips.get(number, ()))),
                *spans.get(number, (number,) * 2),
            )
            for number, some in enumerate(kernels)
        ]
    begins, total = offsets(everything)
    if shared:
        total = round_up(total, LINE)
        begins += [total] * len(kernels)
    return Schedule(
        planned,
        kernels,
        strips,
        dict(zip(lives, begins)),
        tuple(begins[len(lives) :]),
        total + each if shared else max(total, LINE),
        least(everything) + each,
        shared,
        each,
    )


def _workspace_bytes(kernels: Iterable[Kernel | None]) -> int:
    return max((one.spec.workspace_bytes(one.work) for one in kernels if one), default=0)


def _kernels(step: Step, planned: Planned, number: int) -> tuple[Kernel, ...]:
    problem = planned.problems[number]
    if problem is None:
        return ()
    candidate = planned.choices[number].ways[0].candidate
    whole = planned.problem(number)
    return tuple(_kernel(whole, work, candidate) for work in candidate.works(problem))


def _strips(planned: Planned, chain: Chain) -> tuple[Kernel | None, ...]:
    """The kernel of each job of a chain; None of what only moves numbers."""
    found: list[Kernel | None] = []
    for job, work in zip(chain.strips.jobs, chain.works):
        if work is None:
            found.append(None)
            continue
        number = chain.first + job.step
        assert isinstance(job, Compute)
        candidate = planned.choices[number].ways[0].candidate
        found.append(_kernel(strip_problem(planned.problem(number), job), work, candidate))
    return tuple(found)


def _kernel(problem: Problem, work: Work, candidate: Candidate) -> Kernel:
    spec = KernelSpec.of(work)
    return Kernel(spec, spec.values(work), problem, work, candidate.choice)
