"""`winogen lab loops`: a loop nest of direct convolution as pseudo-code, counts, C, OpenCL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from winogen.cli.convolution import INPUT, WEIGHT, read, takes
from winogen.cli.options import ISA, integers

if TYPE_CHECKING:
    from winogen.records import Target
    from winogen_lab.loops.parameters import LoopProblem, Parameters

EXAMPLE = (
    "Example: winogen lab loops --input 1,64,56,56 --weight 64,64,3,3 --padding 1 "
    "--strategy filters-c --count"
)


@takes("stride padding dilation groups layout filter_dtype", panels=True)
def loops(
    input: str = INPUT,
    weight: str = WEIGHT,
    dtype: str = typer.Option(
        "float32", metavar="TYPE", help="Of the arrays: float32, float64, float16 or flyte24, say."
    ),
    isa: str = ISA,
    strategy: str = typer.Option(
        None, metavar="NAME", help="The micro-kernel: see --strategies; or fewest-loads."
    ),
    order: str = typer.Option(None, metavar="AXES", help="Loops, outermost first: H.o,M,H.i,W."),
    blocks: str = typer.Option(None, metavar="D=N,...", help="Sizes of blocks, by dim: H=8."),
    unroll: str = typer.Option(None, metavar="D=N,...", help="Loops to unroll: W=2,C=4."),
    registers: str = typer.Option(
        None, metavar="W,M,H", help="Register block: pixels, filters, rows."
    ),
    image: str = typer.Option(
        None, metavar="AXES", help="How inputs lie that are read: CHW, HWC and so on."
    ),
    kernel: str = typer.Option(
        None, metavar="AXES", help="How packed filters lie: MCYX and so on, or MYXCm."
    ),
    output: str = typer.Option(None, metavar="AXES", help="How sums lie: MHW, HWM and so on."),
    copies: str = typer.Option(
        None,
        metavar="implicit|explicit",
        help="implicit, or explicit: inputs are copied to a tile.",
    ),
    nest: str = typer.Option(None, metavar="JSON", help="All parameters at once, as printed."),
    strategies: bool = typer.Option(False, "--strategies", help="Compare the micro-kernels."),
    count: bool = typer.Option(False, "--count", help="Count loads, stores and FMAs, too."),
    c: bool = typer.Option(False, "--c", help="Print the C of the kernel instead."),
    opencl: bool = typer.Option(
        False, "--opencl", help="Print it as a kernel in OpenCL C, whose items are outer loops."
    ),
    **options: Any,
) -> None:
    """Print a loop nest of direct convolution; what is not given is as usual for the layer."""
    from winogen.conv import arguments
    from winogen.conv.choice import Choice
    from winogen.conv.cuts import work_of
    from winogen.conv.problem import Layer
    from winogen.conv.request import Request
    from winogen.errors import Unsupported
    from winogen.kernels import assign
    from winogen.records import ARRAY_TYPES, TARGETS, Precision
    from winogen.toolchain import host_target
    from winogen_lab.loops.build import build
    from winogen_lab.loops.parameters import Parameters
    from winogen_lab.loops.pseudo import pseudo_code
    from winogen_lab.loops.rules import check
    from winogen_lab.loops.usual import usual, usual_order
    from winogen_lab.loops.variant import problem_of

    target = host_target() if isa is None else TARGETS[arguments.choice("isa", isa, tuple(TARGETS))]
    batch, channels, height, width = integers("input", input, 4)
    dtype = arguments.choice("dtype", dtype, ARRAY_TYPES)
    filters = options.pop("filter_dtype", None)
    layer = Layer.of(integers("weight", weight, 4), dtype, **read(options))
    Request.of(layer, algorithm="loops", filter_dtype=filters)
    planes = layer.layout == "NCHW"
    shape = (channels, height, width) if planes else (height, width, channels)
    precision = Precision.of(dtype, filters)
    choice = Choice("loops", precision=precision)
    work = assign(work_of(layer.problem((batch, *shape)), choice, target))
    problem = problem_of(work)
    if strategies:
        _compare(problem, target)
        return
    if nest is not None:
        chosen = Parameters.from_text(nest)
    else:
        chosen = usual(problem, target, *_strategy(strategy))
        sizes = _pairs("blocks", blocks)
        if blocks is not None:
            order = order or ",".join(usual_order(chosen.strategy, dict(sizes)))
        given = {"image": image, "kernel": kernel, "output": output, "copies": copies}
        chosen = replace(
            chosen,
            **{name: text for name, text in given.items() if text is not None},
            order=chosen.order if order is None else tuple(order.split(",")),
            blocks=chosen.blocks if blocks is None else sizes,
            unroll=_pairs("unroll", unroll),
            rows=1 if copies == "implicit" else chosen.rows,
        )
        if registers is not None:
            pixels, filters, *rows = integers("registers", registers, 2, 3)
            chosen = replace(chosen, pixels=pixels, filters=filters, rows=rows[0] if rows else 1)
    made = build(problem, check(problem, chosen, target), target)
    if c:
        from winogen.codegen.render import render
        from winogen.kernels.spec import KernelSpec

        typer.echo(render(KernelSpec.of(replace(work, parameters=chosen))), nl=False)
        return
    if opencl:
        if filters:
            raise Unsupported(f'filter_dtype: got "{filters}" with --opencl; allowed: None')
        from winogen.codegen.devices.render import render as render_work
        from winogen_lab.loops.devices import nest_work

        typer.echo(render_work(nest_work(layer.problem((batch, *shape)), chosen, target), "opencl"))
        return
    typer.echo(chosen.text)
    typer.echo(pseudo_code(made))
    if count:
        _count(problem, chosen, target)


def _strategy(name: str | None) -> tuple[str | None, str]:
    """The micro-kernel that is asked for, and the rule that chooses what is not."""
    from winogen.conv import arguments
    from winogen_lab.loops.parameters import STRATEGIES

    if name is None:
        return None, "cycles"
    arguments.choice("strategy", name, (*STRATEGIES, _FEWEST))
    return (None, "loads") if name == _FEWEST else (name, "cycles")


def _pairs(name: str, text: str | None) -> tuple[tuple[str, int], ...]:
    """Return "H=8,C=32" as pairs.

    >>> _pairs("blocks", "H=8,C=32")
    (('H', 8), ('C', 32))
    """
    from winogen.errors import InvalidValue

    pairs = [piece.partition("=") for piece in text.split(",")] if text else []
    try:
        return tuple((word, int(number)) for word, _, number in pairs)
    except ValueError:
        raise InvalidValue(f"{name}: got {text!r}; allowed: NAME=NUMBER, ...") from None


def _count(problem: LoopProblem, nest: Parameters, target: Target) -> None:
    from winogen.records import NUMBERS
    from winogen_lab.loops.build import build
    from winogen_lab.loops.count import count

    made, size = build(problem, nest, target), NUMBERS[problem.dtype].itemsize
    counts = count(made)
    typer.echo("")
    for name in ("fmas", "operand_loads", "sum_loads", "sum_stores", "horizontal_adds",
                 "permutations"):  # fmt: skip
        typer.echo(f"{name.replace('_', ' '):<16} {getattr(counts, name):,}")
    typer.echo(f"{'loads per FMA':<16} {counts.loads_per_fma:.3f}")
    typer.echo(f"{'tile':<16} {made.tile * size:,} bytes")
    typer.echo(f"{'waiting sums':<16} {made.sums * size:,} bytes")


def _compare(problem: LoopProblem, target: Target) -> None:
    """A line for each micro-kernel of a target, with its usual register block."""
    from winogen_lab.loops.build import build
    from winogen_lab.loops.count import count
    from winogen_lab.loops.rules import strategies
    from winogen_lab.loops.usual import usual

    typer.echo(_ROW.format("micro-kernel", "block", "loads/FMA", "sums in, out/FMA", "tile"))
    for name in strategies(target, problem.kernel):
        nest = usual(problem, target, name)
        made = build(problem, nest, target)
        counts = count(made)
        moved = (counts.sum_loads + counts.sum_stores) / counts.fmas
        typer.echo(
            _ROW.format(name, _block(nest), f"{counts.loads_per_fma:.3f}",
                        f"{moved:.4f}", f"{made.tile:,}")
        )  # fmt: skip


def _block(nest: Parameters) -> str:
    """Rows, if there are several, pixels and filters of a register block."""
    sizes = nest.rows, nest.pixels, nest.filters
    return " x ".join(map(str, sizes if nest.rows > 1 else sizes[1:]))


_FEWEST = "fewest-loads"
_ROW = "{:<20} {:>8} {:>10} {:>17} {:>12}"
