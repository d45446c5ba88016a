"""One layer, planned, as a pair of C files; for instruction sets that this CPU need not have."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from winogen.codegen.hosts import HOSTS
from winogen.codegen.interface import float_interface
from winogen.codegen.reference import Reference
from winogen.conv import arguments, planner
from winogen.conv.accuracy import predicted_error
from winogen.conv.choice import Choice
from winogen.conv.choice import multiplications as counted
from winogen.conv.clocks import unmeasured
from winogen.conv.options import Options
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.request import Request
from winogen.conv.standalone_weights import carried
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels.spec import KernelSpec
from winogen.program.summation import PROGRAM
from winogen.records import ARRAY_TYPES
from winogen.spelling import in_one_line
from winogen.toolchain import host_target


def standalone(
    input_shape: Any,
    weight_shape: Any,
    *,
    dtype: str = "float32",
    isa: str | None = None,
    name: str | None = None,
    add: bool = False,
    add_after: bool = False,
    host: str = "c",
    weights: Any = None,
    command: str = "winogen.conv.standalone",
    **options: Any,
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text} for one layer on inputs of one shape.

    ``add``, ``add_after``: whether `run` takes such arrays. ``options`` are those of `conv2d`;
    ``threads`` is how many the work is cut for, 1 unless given, and any number may run it. With
    "caller", or "caller:N" for about N of them, each thread of the caller runs a part, and the C
    knows nothing of threads. ``edge`` must be "discard". ``isa``: an instruction set of `TARGETS`
    with its extensions, as "avx512+vnni", by default this CPU's. ``host``: one of `HOSTS`, for
    which the files are written. ``weights``: an array of ``weight_shape``, or a mapping with
    "weight", "bias" and "slopes", which a third file, "<name>_weights.c", then has packed.
    ``command``: what the files say regenerates them. The plan is made
    for the default machine: files are the same wherever they are made. Raises InvalidType,
    InvalidValue and Unsupported as `conv2d` does.

    >>> sorted(standalone((1, 64, 56, 56), (64, 64, 3, 3), padding=1, isa="avx2"))
    ['conv_56x56_64_64_3x3.c', 'conv_56x56_64_64_3x3.h']
    """
    dtype = arguments.choice("dtype", dtype, ARRAY_TYPES)
    writer = HOSTS[arguments.choice("host", host, tuple(HOSTS))]
    target = host_target() if isa is None else arguments.target(isa)
    threads, shared = whose(options.pop("threads", 1))
    asked = Options(**{"threads": threads, **options})
    layer = Layer.from_options(weight_shape, dtype, asked)
    problem = layer.problem(input_shape)
    writer.check(dtype, layer.layout, carries=weights is not None)
    filters = layer.filters
    problem = problem.sewn(Seams(layer.channels, filters, add * filters, add_after * filters))
    if not problem.batch:
        raise InvalidValue(f"input: got shape {tuple(input_shape)}; allowed: a batch of at least 1")
    request = Request.from_options(layer, asked)
    if request.edge != "discard":
        raise Unsupported(
            f'edge: got "{request.edge}"; allowed: "discard", for a pair of files holds one kernel'
        )
    folded = problem.folded
    machine = unmeasured(target, waits=not (writer.in_parts or shared))
    chosen = planner.choose(folded, request.folded(layer), target, machine)
    (work,) = chosen.works(folded)
    spec = KernelSpec.of(work)
    fields, about = spec.values(work), about_of(problem, chosen.choice, spec)
    shapes = {
        "input": problem.input_shape, "weight": layer.weight_shape, "output": problem.output_shape
    }  # fmt: skip
    error = predicted_error(folded.layer, chosen.choice, target)
    interface = replace(
        float_interface(spec, fields),
        shapes=shapes,
        shared=shared,
        reference=replace(reference_of(problem), error=error),
    )
    name = name or name_of(problem)
    interface, kept = carried(name, spec, fields, interface, weights, layer.weight_shape)
    return writer.files(name, spec, fields, interface, about, command, constants=kept)


CALLER = "caller"
SHARES = 4  # threads that work is cut for where its caller has them; any number may run it


def whose(threads: Any) -> tuple[Any, bool]:
    """Return how many threads work is cut for, and whether they are the caller's.

    >>> whose(3), whose("caller"), whose("caller:16")
    ((3, False), (4, True), (16, True))
    """
    if threads == CALLER:
        return SHARES, True
    word, _, count = threads.partition(":") if isinstance(threads, str) else ("", "", "")
    if word != CALLER:
        return threads, False
    known = count.isascii() and count.isdecimal() and len(count) < 10
    return int(count) if known else count, True


def reference_of(problem: Problem) -> Reference:
    """Return what a problem computes, for programs that compute it again."""
    layer = problem.layer
    return Reference(
        batch=problem.batch,
        groups=layer.groups,
        channels=layer.channels // layer.groups,
        filters=layer.filters // layer.groups,
        size=problem.size,
        output_size=problem.output_size,
        kernel=layer.kernel,
        stride=layer.stride,
        dilation=layer.dilation,
        before=[axis.before for axis in layer.axes],
        planar=layer.planar,
        dtype=layer.dtype,
        epilogue=problem.epilogue,
        mode=layer.padding_mode,
    )


ENDS = (("front", "back"), ("top", "bottom"), ("left", "right"))


def name_of(problem: Problem) -> str:
    """Return what files of a layer are called unless somebody says otherwise."""
    layer = problem.layer
    kernel = "x".join(map(str, layer.kernel))
    size = "x".join(map(str, problem.size))
    return f"conv_{size}_{layer.channels}_{layer.filters}_{kernel}"


def about_of(problem: Problem, choice: Choice, spec: KernelSpec) -> list[str]:
    """Return lines that say what a layer is, and how it is computed."""
    layer = problem.layer
    ends = (
        f"{before} {axis.before}, {after} {axis.after}"
        for (before, after), axis in zip(ENDS[-layer.rank :], layer.axes)
    )
    shapes = (("input", problem.input_shape), ("weight", layer.weight_shape),
              ("output", problem.output_shape))  # fmt: skip
    what = f"{layer.rank}D convolution, {spec.precision.name}, {layer.layout}"
    lines = [
        f"{what}, for {spec.target.name}.",
        *(f"{what:<8} {' x '.join(map(str, shape))}" for what, shape in shapes),
        f"padding  {', '.join(ends)}: {layer.padding_mode}",
    ]
    for what, value, usual in (
        ("stride", layer.stride, (1,) * layer.rank),
        ("dilation", layer.dilation, (1,) * layer.rank),
        ("groups", layer.groups, 1),
    ):
        if value != usual:
            lines.append(
                f"{what:<8} {value if isinstance(value, int) else ' x '.join(map(str, value))}"
            )
    lines += computed_by(layer, choice, spec)
    if problem.epilogue.means:
        lines.append(f"followed by {problem.epilogue.means}")
    multiplications = counted(problem.folded, choice)
    lines.append(
        f"multiplications {multiplications:,} (direct: {problem.direct_multiplications:,})"
    )
    return lines


def computed_by(layer: Layer, choice: Choice, spec: KernelSpec) -> list[str]:
    """Return lines that say by what algorithm, tiles and points a layer is computed."""
    lines = [f"computed by {choice.algorithm}, variant {spec.variant}"]
    if choice.tile is not None:
        folded = layer.folded.rank < layer.rank
        names = ("depth", "height") if folded else ("height", "width")
        sides = tuple(zip(names, (spec.transform_h, spec.transform_w)))
        along = (True, False) if folded else spec.entry.transforms_along(layer.rank)[-2:]
        for (axis, transform), transformed in zip(sides[-layer.rank :], along):
            if not transformed:
                continue
            made_of = f"points {in_one_line(transform.points)}"
            if transform.stride > 1:
                made_of = f"stride {transform.stride}, {transform.source}"
            if transform.moduli:
                made_of = f"moduli {', '.join(transform.moduli)}"
            lines.append(f"  along the {axis} F({transform.m}, {transform.r}), {made_of}")
        if choice.order != PROGRAM:
            lines.append(f"  rows of the transforms summed one by one, order {choice.order}")
    return lines


def command_line(options: dict) -> str:
    """Return `winogen generate` with the options that were given, quoted for a shell.

    >>> command_line({"input": "1,3,8,8", "padding": None})
    'winogen generate --input 1,3,8,8'
    """
    words = [word for key, value in options.items() if value is not None
             for word in (f"--{key.replace('_', '-')}", *([] if value is True else [str(value)]))
             ]  # fmt: skip
    return shlex.join(["winogen", "generate", *words])
