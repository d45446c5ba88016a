"""One layer, planned, as a pair of C files; for instruction sets that this CPU need not have."""

from __future__ import annotations

import shlex

from winogen.build import host_target
from winogen.codegen.standalone import render_pair
from winogen.codegen.targets import TARGETS
from winogen.conv import arguments, execute, planner
from winogen.conv.choice import Choice
from winogen.conv.choice import multiplications as counted
from winogen.conv.machine import Machine, assumed
from winogen.conv.problem import Layer, Problem
from winogen.conv.request import request as request_of
from winogen.errors import InvalidValue
from winogen.program.summation import PROGRAM


def standalone(
    input_shape,
    weight_shape,
    *,
    dtype="float32",
    algorithm="auto",
    tile=None,
    points=None,
    moduli=None,
    order=None,
    border="unswitch",
    threads=1,
    tolerance=None,
    workspace_limit=None,
    isa=None,
    name=None,
    command="winogen.conv.standalone",
    **layer_options,
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text} for one layer on inputs of one shape.

    ``layer_options``: stride, padding, dilation, groups, padding_mode, layout and activation as in
    `conv2d`, as are the other options. ``isa``: an instruction set of `TARGETS`, by default this CPU's. ``threads``: how many
    the work is cut for; any number may run it. ``command``: what the files say regenerates them.
    The plan is that for the default machine, so that the files are the same wherever they are made.
    Raises InvalidType, InvalidValue and Unsupported as `conv2d` does.

    >>> sorted(standalone((1, 64, 56, 56), (64, 64, 3, 3), padding=1, isa="avx2"))
    ['conv_56x56_64_64_3x3.c', 'conv_56x56_64_64_3x3.h']
    """
    dtype = arguments.choice("dtype", dtype, arguments.DTYPES)
    target = host_target() if isa is None else TARGETS[arguments.choice("isa", isa, tuple(TARGETS))]
    layer = Layer.of(weight_shape, dtype, **layer_options)
    problem = layer.problem(input_shape)
    if not problem.batch:
        raise InvalidValue(f"input: got shape {tuple(input_shape)}; allowed: a batch of at least 1")
    request = request_of(
        layer,
        algorithm=algorithm,
        tile=tile,
        points=points,
        moduli=moduli,
        order=order,
        border=border,
        threads=threads,
        tolerance=tolerance,
        workspace_limit=workspace_limit,
    )
    with assumed(Machine()):
        choice = planner.choose(problem, request, target)
        ((whole, _),) = planner.parts(problem, choice)
        work = planner.blocking(problem, choice, whole, target)
    spec = execute.specify(layer, choice, target)
    return render_pair(
        name or _name(problem),
        spec,
        execute.sizes(problem, whole, work),
        _about(problem, choice, spec),
        command,
    )


def _name(problem: Problem) -> str:
    layer = problem.layer
    kernel = "x".join(map(str, layer.kernel))
    size = f"{problem.height}x{problem.width}"
    return f"conv_{size}_{layer.channels}_{layer.filters}_{kernel}"


def _about(problem: Problem, choice: Choice, spec) -> list[str]:
    layer = problem.layer
    top, bottom, left, right = layer.padding
    shapes = (("input", problem.input_shape), ("weight", layer.weight_shape),
              ("output", problem.output_shape))  # fmt: skip
    lines = [
        f"2D convolution, {layer.dtype}, {layer.layout}, for {spec.target.name}.",
        *(f"{what:<8} {' x '.join(map(str, shape))}" for what, shape in shapes),
        f"padding  top {top}, bottom {bottom}, left {left}, right {right}: {layer.padding_mode}",
    ]
    for what, value, usual in (
        ("stride", layer.stride, (1, 1)),
        ("dilation", layer.dilation, (1, 1)),
        ("groups", layer.groups, 1),
    ):
        if value != usual:
            lines.append(
                f"{what:<8} {value if isinstance(value, int) else ' x '.join(map(str, value))}"
            )
    lines.append(f"computed by {choice.algorithm}")
    if choice.tile is not None:
        sides = [("width", spec.transform_w)]
        if choice.algorithm != "winograd1d":
            sides.insert(0, ("height", spec.transform_h))
        for axis, transform in sides:
            made_of = f"points {', '.join(transform.points)}"
            if transform.moduli:
                made_of = f"moduli {', '.join(transform.moduli)}"
            lines.append(f"  along the {axis} F({transform.m}, {transform.r}), {made_of}")
        if choice.order != PROGRAM:
            lines.append(f"  rows of the transforms summed one by one, order {choice.order}")
    if layer.relu:
        lines.append("followed by max(y, 0)")
    multiplications = counted(problem, choice)
    lines.append(
        f"multiplications {multiplications:,} (direct: {problem.direct_multiplications:,})"
    )
    return lines


def command_line(options: dict) -> str:
    """Return `winogen generate` with the options that were given, quoted for a shell.

    >>> command_line({"input": "1,3,8,8", "padding": None})
    'winogen generate --input 1,3,8,8'
    """
    words = [word for key, value in options.items() if value is not None
             for word in (f"--{key.replace('_', '-')}", str(value))]  # fmt: skip
    return shlex.join(["winogen", "generate", *words])
