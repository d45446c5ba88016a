"""A network planned for a target: which kernels, which calls, and where in the arena all lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from winogen.conv import planner
from winogen.conv.choice import multiplications
from winogen.conv.problem import Problem
from winogen.errors import InvalidValue
from winogen.graph.ir import Conv
from winogen.graph.layouts import channels_last
from winogen.graph.lower import Step, lower
from winogen.graph.memory import Life, offsets
from winogen.graph.places import Buffer
from winogen.graph.planning import Planned, lives_of, plan_steps
from winogen.graph.settings import Settings
from winogen.graph.shapes import shapes
from winogen.kernels.spec import KernelSpec
from winogen.network.reading import Network
from winogen.records import Machine, Target

_ITEM = 4  # bytes of a number


class Kernel(NamedTuple):
    """A kernel for one call; equal layers share it."""

    spec: KernelSpec
    fields: Mapping[str, Any]
    problem: Problem
    work: Any
    choice: Any


@dataclass(frozen=True)
class Schedule:
    """A plan, the kernels of each of its steps, and the arena."""

    planned: Planned
    kernels: tuple[tuple[Kernel, ...], ...]  # of each step; none of what only moves numbers
    begins: Mapping[Buffer, int]  # of buffers of the arena, in bytes
    workspaces: tuple[int, ...]  # where that of each step begins
    arena_bytes: int
    least_bytes: int  # that any arena needs: what is alive at the same time

    @property
    def predicted_error(self) -> float:
        """Of the outputs, relative to the largest: as if errors of layers met as random numbers."""
        target = self.planned.settings.target
        errors = [
            planner.predicted_error(one.problem.layer, one.choice, target)
            for some in self.kernels
            for one in some[:1]
        ]
        return sqrt(sum(error**2 for error in errors))

    @property
    def products(self) -> tuple[int, int]:
        """Multiplications between operands of all convolutions: as planned, and by direct ones."""
        firsts = [some[0] for some in self.kernels if some]
        planned = sum(multiplications(one.problem, one.choice) for one in firsts)
        return planned, sum(one.problem.direct_multiplications for one in firsts)


def schedule(
    network: Network,
    target: Target,
    *,
    tolerance: float | None = None,
    algorithm: str = "auto",
    workspace_limit: int | None = None,
) -> Schedule:
    """Return the plan of a network on one thread, in the layout that is predicted to be faster.

    It is made for the default machine: the same wherever it is made. Raises InvalidValue, and
    Unsupported for an algorithm that some layer does not have.
    """
    settings = Settings(
        layout="NCHW",
        dtype="float32",
        threads=1,
        tolerance=tolerance,
        algorithm=algorithm,
        target=target,
        machine=Machine(),
        workspace_limit=workspace_limit,
        strips=False,
    )
    values = shapes(network.graph, dict(zip(network.graph.inputs, network.maps)))
    outputs = [values[name] for name in network.graph.outputs]
    steps, buffers = lower(network.graph, values, np.dtype(np.float32))
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
    return _laid(min(ways, key=lambda way: way.seconds))


def _laid(planned: Planned) -> Schedule:
    kernels = tuple(
        _kernels(step, problem, choice.ways[0].candidate if choice.ways else None)
        for step, problem, choice in zip(planned.steps, planned.problems, planned.choices)
    )
    lives = lives_of(planned.steps, planned.rooms, (), _ITEM)
    needs = [
        Life(max((one.spec.workspace_bytes(one.work) for one in some), default=0), number, number)
        for number, some in enumerate(kernels)
    ]
    everything = [*lives.values(), *needs]
    begins, total = offsets(everything)
    least = max(
        (
            sum(life.size for life in everything if life.first <= number <= life.last)
            for number in range(len(kernels))
        ),
        default=0,
    )
    return Schedule(
        planned,
        kernels,
        dict(zip(lives, begins)),
        tuple(begins[len(lives) :]),
        max(total, 64),
        least,
    )


def _kernels(step: Step, problem: Problem | None, candidate: Any) -> tuple[Kernel, ...]:
    if problem is None:
        return ()
    assert isinstance(step.op, Conv)
    return tuple(
        Kernel(spec, spec.values(work), problem, work, candidate.choice)
        for work in candidate.works(problem)
        for spec in (KernelSpec.of(work),)
    )
