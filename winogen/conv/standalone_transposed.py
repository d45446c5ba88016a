"""One transposed layer, planned, as a pair of C files: its phases are calls of one kernel."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, NamedTuple

from winogen.codegen.hosts import HOSTS
from winogen.codegen.interface import Phases, Transposed, float_interface
from winogen.codegen.reference import Reference
from winogen.conv import arguments, planner
from winogen.conv.accuracy import predicted_error
from winogen.conv.choice import multiplications
from winogen.conv.clocks import unmeasured
from winogen.conv.cuts import Candidate
from winogen.conv.options import Options
from winogen.conv.problem import Seams, plane_of
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.standalone import ENDS, computed_by, whose
from winogen.conv.stock import only
from winogen.conv.transposed import requests, ways
from winogen.conv.transposed_problem import Part, TransposedLayer, TransposedProblem
from winogen.errors import CompilerNotFound, InvalidValue, Unsupported
from winogen.kernels import Work
from winogen.kernels.spec import KernelSpec
from winogen.kernels.work import round_up
from winogen.records import ARRAY_TYPES, Machine, Strides, Target
from winogen.records.machine import LINE
from winogen.toolchain import host_target
from winogen.typing import IntOrInts


class _PartCall(NamedTuple):
    """A part of the layer as a call of the kernel that all parts share."""

    part: Part
    way: Candidate

    @property
    def work(self) -> Work:
        (work,) = self.way.works(self.part.problem)
        return work


def standalone_transposed(
    input_shape: Any,
    weight_shape: Any,
    *,
    output_padding: IntOrInts = 0,
    dtype: str = "float32",
    isa: str | None = None,
    name: str | None = None,
    add: bool = False,
    add_after: bool = False,
    host: str = "c",
    command: str = "winogen.conv.standalone_transposed",
    **options: Any,
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text} for one transposed layer.

    ``weight_shape`` is (C, M/groups, KH, KW), and ``options`` are those of `conv_transpose2d`; all
    else is as `winogen.conv.standalone.standalone` has it. All phases run on one kernel. Raises
    InvalidType, InvalidValue and Unsupported as `conv_transpose2d` does, and Unsupported where an
    algorithm that was named would take several kernels.

    >>> files = standalone_transposed((1, 64, 48, 48), (64, 64, 4, 4), stride=2, padding=1)
    >>> sorted(files)
    ['conv_transpose_48x48_64_64_4x4.c', 'conv_transpose_48x48_64_64_4x4.h']
    """
    dtype = arguments.choice("dtype", dtype, ARRAY_TYPES)
    writer = HOSTS[arguments.choice("host", host, tuple(HOSTS))]
    target = host_target() if isa is None else arguments.target(isa)
    threads, shared = whose(options.pop("threads", 1))
    asked = Options(**{"threads": threads, **options})
    layer = TransposedLayer.of(tuple(weight_shape), dtype, asked, output_padding)
    problem = layer.problem(input_shape)
    writer.check(dtype, layer.sample.layout, "transposed convolution")
    if not problem.batch:
        raise InvalidValue(f"input: got shape {tuple(input_shape)}; allowed: a batch of at least 1")
    filters = layer.sample.filters
    seams = Seams(layer.sample.channels, filters, add * filters, add_after * filters)
    machine = unmeasured(target, waits=not (writer.in_parts or shared))
    spec, calls = _calls(problem, seams, target, machine)
    sample = layer.sample
    transposed = Transposed(
        sample.groups, sample.channels // sample.groups, filters // sample.groups,
        prod(sample.kernel), tuple(_phases(problem, call, spec) for call in calls),
    )  # fmt: skip
    fields = transposed.calls[0].fields
    shapes = {
        "input": problem.input_shape, "weight": layer.weight_shape, "output": problem.output_shape
    }  # fmt: skip
    interface = replace(
        float_interface(spec, fields, transposed),
        shapes=shapes,
        shared=shared,
        reference=_reference(problem, calls, target),
    )
    about = _about(problem, spec, calls)
    return writer.files(
        name or name_of(problem), spec, fields, interface, about, command, transposed
    )


def _reference(problem: TransposedProblem, calls: list[_PartCall], target: Target) -> Reference:
    """What it computes, for programs that compute it again."""
    layer, sample = problem.layer, problem.layer.sample
    computed = [call for call in calls if call.part.weight != ("none",)]
    return Reference(
        batch=problem.batch,
        groups=sample.groups,
        channels=sample.channels // sample.groups,
        filters=sample.filters // sample.groups,
        size=problem.size,
        output_size=problem.output_size,
        kernel=sample.kernel,
        stride=layer.stride,
        dilation=layer.dilation,
        before=[before for before, _ in layer.ends],
        planar=sample.planar,
        dtype=sample.dtype,
        epilogue=calls[0].part.problem.epilogue,
        error=max(predicted_error(c.part.problem.layer, c.way.choice, target) for c in computed),
        transposed=True,
    )


def _calls(
    problem: TransposedProblem, seams: Seams, target: Target, machine: Machine
) -> tuple[KernelSpec, list[_PartCall]]:
    """The kernel, and the calls of the best way that one kernel computes."""
    found = ways(Query(problem, Request(), target, machine), seams)
    refused: InvalidValue | None = None
    for parts, request, _ in found:
        try:
            spec, calls = _on_one_kernel(requests(parts, request), target, machine)
            _check_memory(calls, request)
            return spec, calls
        except InvalidValue as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _on_one_kernel(
    asked: list[tuple[Part, Request]], target: Target, machine: Machine
) -> tuple[KernelSpec, list[_PartCall]]:
    """All parts planned for one kernel: what they would choose alone, or what one of them would."""
    calls = [
        _PartCall(part, planner.choose(part.problem, own, target, machine)) for part, own in asked
    ]
    specs = list(dict.fromkeys(KernelSpec.of(call.work) for call in calls))
    if len(specs) == 1:
        return specs[0], calls
    for spec in specs:
        kept, algorithm = only(frozenset({spec})), spec.entry.algorithm
        found = []
        try:
            for part, own in asked:
                same = replace(own, algorithm=algorithm)
                best, *_ = planner.ranked(part.problem, same, target, machine, 1, None, kept)
                found.append(_PartCall(part, best))
        except (InvalidValue, CompilerNotFound):  # another kernel may do for all
            continue
        return spec, found
    names = ", ".join(sorted({spec.variant for spec in specs}))
    raise Unsupported(
        f"algorithm: got phases that take several kernels ({names}), and a pair of files holds "
        'one; allowed: algorithm "direct"'
    )


def _check_memory(calls: list[_PartCall], request: Request) -> None:
    """Raise InvalidValue if zeros, which some calls read, take the workspace beyond its limit."""
    needed = sum(max(sizes) for sizes in zip(*(_memory(call) for call in calls)))
    if request.workspace_limit is not None and needed > request.workspace_limit:
        raise InvalidValue(
            f"workspace_limit: got {request.workspace_limit}; allowed: at least {needed} for this "
            "layer, which reads zeros for outputs that see no input"
        )


def _memory(call: _PartCall) -> tuple[int, int]:
    """Bytes of workspace and of zeros."""
    if call.part.weight != ("none",):
        return call.way.workspace_bytes, 0
    problem = call.part.problem
    zeros = prod(problem.input_shape) * problem.layer.itemsize
    return call.way.workspace_bytes, int(round_up(zeros, LINE))


def _phases(problem: TransposedProblem, call: _PartCall, spec: KernelSpec) -> Phases:
    """What the C of a call is made of."""
    part, work = call.part, call.work
    sample = problem.layer.sample
    begin, (_, zeros) = None, _memory(call)
    if not zeros:
        lies = _strides(problem, sample.channels, problem.size)
        begin = _first(lies, part.cut)
        if part.cut:  # the array is the whole one, of which the call sees a part
            work = replace(work, input=replace(lies, planes=work.input.planes))
    fields = spec.values(work)
    lies = _strides(problem, sample.filters, problem.output_size)
    spread = part.problem.spread
    assert spread is not None
    filters = spread.filters or sample.filters // sample.groups
    return Phases(fields, begin, _first(lies, part.first), filters, _taps(problem, part), zeros)


def _strides(problem: TransposedProblem, channels: int, sizes: tuple[int, ...]) -> Strides:
    layout = "NCHW" if problem.layer.sample.planar else "NHWC"
    return Strides.of(layout, channels, *plane_of(sizes), prod(sizes[:-2]))


def _first(lies: Strides, place: tuple[int, ...]) -> int:
    """The number of an array at a place along each axis."""
    deep, high, wide = (0, 0, 0, *place)[-3:]
    return deep * lies.plane + high * lies.row + wide * lies.pixel


def _taps(problem: TransposedProblem, part: Part) -> tuple[tuple[int, ...], ...]:
    """Places in the kernel of the taps of a part's phases, in the order of its filters."""
    kernel, stride = problem.layer.sample.kernel, problem.layer.stride
    kind, *taken = part.weight
    if kind == "none":
        return ((-1,),)
    # Along each axis, the taps of its phases; where all are filters, as `joined_weight` has them.
    along: list[list[list[int]]] = [[list(taps)] for taps in taken]
    for k, s in list(zip(kernel, stride))[len(taken) :]:
        few = -(-k // s)
        along.append([[s * i + phase for i in reversed(range(few))] for phase in range(s)])
    return tuple(tuple(_place(taps, kernel) for taps in product(*axes)) for axes in product(*along))


def _place(taps: tuple[int, ...], kernel: tuple[int, ...]) -> int:
    """A tap numbered along all axes; -1 for one that the kernel lacks."""
    place = 0
    for tap, size in zip(taps, kernel):
        if tap >= size:
            return -1
        place = place * size + tap
    return place


def name_of(problem: TransposedProblem) -> str:
    """Return what files of a layer are called unless somebody says otherwise."""
    sample = problem.layer.sample
    kernel, size = ("x".join(map(str, one)) for one in (sample.kernel, problem.size))
    return f"conv_transpose_{size}_{sample.channels}_{sample.filters}_{kernel}"


def _about(problem: TransposedProblem, spec: KernelSpec, calls: list[_PartCall]) -> list[str]:
    """Lines that say what the layer is, and how it is computed."""
    layer, sample = problem.layer, problem.layer.sample
    weight = (sample.channels, sample.filters // sample.groups, *sample.kernel)
    ends = (
        f"{names[0]} {before}, {names[1]} {after}"
        for names, (before, after) in zip(ENDS[-sample.rank :], layer.ends)
    )
    what = f"{sample.rank}D transposed convolution, {spec.precision.name}, {sample.layout}"
    shapes = (("input", problem.input_shape), ("weight", weight), ("output", problem.output_shape))
    lines = [
        f"{what}, for {spec.target.name}.",
        *(f"{what:<8} {' x '.join(map(str, shape))}" for what, shape in shapes),
        f"padding  {', '.join(ends)}: left out of the output",
    ]
    for name, values, usual in (
        ("stride", layer.stride, 1), ("dilation", layer.dilation, 1),
        ("output_padding", layer.output_padding, 0),
    ):  # fmt: skip
        if set(values) != {usual}:
            lines.append(f"{name:<8} {' x '.join(map(str, values))}")
    if sample.groups > 1:
        lines.append(f"groups   {sample.groups}")
    first = next(call for call in calls if call.part.weight != ("none",))
    lines += computed_by(first.part.problem.layer, first.way.choice, spec)
    count, together = len(calls), first.part.weight[0] == "all"
    if count == 1:
        lines.append("  all phases in one call")
    else:
        phases = "all phases of a plane" if together else "one phase"
        lines.append(f"  {phases} in each of {count} calls")
    epilogue = calls[0].part.problem.epilogue
    if epilogue.means:
        lines.append(f"followed by {epilogue.means}")
    counts = [
        multiplications(call.part.problem, call.way.choice)
        for call in calls
        if call.part.weight != ("none",)
    ]
    direct = problem.direct_multiplications
    return [*lines, f"multiplications {sum(counts):,} (direct, with what is left out: {direct:,})"]
