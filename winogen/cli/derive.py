"""`winogen derive`: the matrices of F(m, r) and short programs, for readers and for compilers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import Enum
from fractions import Fraction
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from winogen.cli import derive_fixed, derive_hardware
from winogen.columns import aligned
from winogen.program.kinds import KINDS
from winogen.spelling import in_one_line

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.codegen.keeping import Keeper
    from winogen.codegen.transform import Transform
    from winogen.program.ir import Program

Programs: TypeAlias = "Mapping[str, Program]"
Stages: TypeAlias = dict[str, dict[str, Any]]  # what `textbook.search` returns

EXAMPLE = (
    "Example: winogen derive 4 3 --points 0,1,-1,1/2,-2,inf\n\n"
    "Example: winogen derive 4 3 --moduli 'x,x-1,x+1,x^2+1,inf' --format json\n\n"
    "Example: winogen derive 4 3 --order huffman --format c\n\n"
    "Example: winogen derive 4 3 --stride 2 --format wgsl\n\n"
    "Example: winogen derive 9 9 --points iterated\n\n"
    "Example: winogen derive 4 3 --moduli 'x,x-1,x+1,x^2+1,inf' --format fixed --channels 256\n\n"
    "Example: winogen derive 2 3 --format verilog --2d --pipeline 1 -o f2_3"
)


class OutputFormat(str, Enum):
    """What to print."""

    text = "text"
    json = "json"
    latex = "latex"
    numpy = "numpy"
    c = "c"
    fixed = "fixed"
    neon = "neon"
    cuda = "cuda"
    opencl = "opencl"
    glsl = "glsl"
    wgsl = "wgsl"
    rust = "rust"
    python = "python"
    julia = "julia"
    fpcore = "fpcore"
    verilog = "verilog"
    hls = "hls"

    @property
    def has_programs_only(self) -> bool:
        """Whether it is a file for a compiler."""
        return self.value not in ("text", "json", "latex", "numpy")


class Multiplier(str, Enum):
    """How a processor multiplies by constants."""

    fast = "fast"
    slow = "slow"


_FORMATS = ", ".join(one.value for one in OutputFormat)


def derive(
    m: int = typer.Argument(help="Outputs of one tile."),
    r: int = typer.Argument(help="Taps of the filter."),
    points: str = typer.Option(
        None,
        metavar="P,P,...",
        help="m + r - 1 exact interpolation points, such as 0,1,-1,1/2,inf. "
        "Default: good ones up to m + r - 1 = 13, moduli from 14 on. With a semicolon those of two "
        "short algorithms, the second within the first; iterated: good ones for both.",
    ),
    moduli: str = typer.Option(
        None,
        metavar="POLYNOMIALS",
        help="Polynomials instead of points, such as 'x,x-1,x^2+1'; inf is allowed. "
        "fourier: all factors of x^(m+r-1) - 1.",
    ),
    stride: int = typer.Option(
        1,
        metavar="S",
        help="Inputs from one output to the next: above 1 the taps of each phase are one part, "
        "with its own default points.",
    ),
    order: str = typer.Option(
        "program",
        metavar="NAME",
        help="How transforms add: program (as the shortest do), or every row on its own, huffman "
        "(smallest partial sums first), pairwise or naive.",
    ),
    format: OutputFormat = typer.Option(
        None, metavar="NAME", help=f"Of the output: {_FORMATS} (default: text)."
    ),
    as_json: bool = typer.Option(False, "--json", help="The same as --format json."),
    bits: str = typer.Option(
        None,
        metavar="B|B,F|q7|q15",
        help="Integers of so many bits as inputs and filters (B,F where these differ): how wide "
        "all becomes. With --format fixed, verilog or hls, 8 by default. q7 and q15, with --format "
        "fixed: in lanes of 8 or 16 bits transforms are scaled down by rounding shifts, with a "
        "bound of the error, in place of wider operands.",
    ),
    channels: int = typer.Option(
        1, min=1, help="Channels whose products are summed, with --format fixed or verilog."
    ),
    multiplier: Multiplier = typer.Option(
        Multiplier.fast,
        metavar="fast|slow",
        help="Of the processor, with --format fixed: slow for transforms of shifts and as few "
        "additions as a search finds.",
    ),
    two_axes: bool = derive_hardware.TWO_AXES,
    folded: bool = derive_hardware.FOLDED,
    pipeline: int = derive_hardware.PIPELINE,
    delay: int = derive_hardware.DELAY,
    fraction: int = derive_hardware.FRACTION,
    output: str = derive_hardware.OUTPUT,
    prove: bool = derive_hardware.PROVE,
    matrices: bool = typer.Option(
        False, "--matrices", help="Only the matrices: no search for programs, which takes seconds."
    ),
) -> None:
    """Derive F(m, r): exact matrices, verified, and short programs that compute them.

    What is in the catalog was searched for before; other programs are kept in the cache folder.
    """
    from winogen.algebra.circle import LARGEST
    from winogen.codegen import shipped, transforms
    from winogen.errors import InvalidValue
    from winogen.program.summation import check_order

    check_order(order)
    if as_json and format not in (None, OutputFormat.json):
        raise InvalidValue(f"json: got it with --format {format.value}; allowed: one of them")
    format = OutputFormat.json if as_json else format or OutputFormat.text
    if points is not None and moduli is not None:
        raise InvalidValue("moduli: got both moduli and points; allowed: one of them")
    if matrices and format.has_programs_only:
        raise InvalidValue(
            f"matrices: got it with --format {format.value}; allowed: with text, json, latex, numpy"
        )
    longest = -(-r // max(stride, 1))  # of the parts of the filter
    if points is moduli is None and min(m, longest) > 1 and m + longest - 1 > LARGEST:
        raise InvalidValue(
            f"m, r: got F({m},{longest}) with n = m + r - 1 = {m + longest - 1}; allowed: n <= "
            f"{LARGEST} by default, else give --points or --moduli"
        )
    hardware = format in (OutputFormat.verilog, OutputFormat.hls)
    integers = hardware or format is OutputFormat.fixed
    if bits is not None and format is not OutputFormat.text and not integers:
        raise InvalidValue(
            f"bits: got it with --format {format.value}; allowed: with text, fixed, verilog and hls"
        )
    both, lanes = derive_fixed.read_bits(bits)
    shaped = {
        "2d": two_axes, "folded": folded, "pipeline": pipeline, "delay": delay,
        "fraction": fraction, "output": output, "prove": prove,
    }  # fmt: skip
    derive_hardware.check(format.value, shaped)
    if lanes is not None and (format is not OutputFormat.fixed or channels > 1):
        raise InvalidValue(f"bits: got {bits}; allowed: with --format fixed, without channels")
    if multiplier is Multiplier.slow and format is not OutputFormat.fixed:
        raise InvalidValue(
            f"multiplier: got slow with --format {format.value}; allowed: with fixed"
        )
    if channels > 1 and not integers:
        raise InvalidValue(
            f"channels: got it with --format {format.value}; allowed: with fixed, verilog and hls"
        )
    if order != "program" and (integers or bits is not None):
        raise InvalidValue(
            f"order: got {order} for integers, whose sums are exact in any order; allowed: program"
        )
    if hardware:
        options = derive_hardware.options(both, channels, shaped)
        algorithm, _ = transforms.derive(m, r, points, moduli, stride)
        derive_hardware.write(algorithm, format.value, points, moduli, options, output, prove)
        return
    if format is OutputFormat.fixed:
        algorithm, _ = transforms.derive(m, r, points, moduli, stride)
        slow = multiplier is Multiplier.slow
        shape = points, moduli, both, channels, lanes
        typer.echo(derive_fixed.header(algorithm, *shape, slow, _keeper()), nl=False)
        return
    default = points is moduli is None and order == "program"
    if format.has_programs_only and default and shipped.is_shipped(m, r, stride=stride):
        # As it ships, without any algebra.
        found = transforms.load(m, r, stride=stride)
        typer.echo(_in(format, found, points, moduli), nl=False)
        return
    algorithm, source = transforms.derive(m, r, points, moduli, stride)
    algorithm.verify()
    if format.has_programs_only:
        typer.echo(_file(algorithm, points, moduli, order, format), nl=False)
    elif format is OutputFormat.latex:
        typer.echo(algorithm.latex())
    elif format is OutputFormat.numpy:
        typer.echo(_numpy(algorithm))
    else:
        programs, stages = None, None
        if not matrices:
            programs, stages = _programs(algorithm, order)
        if format is OutputFormat.json:
            typer.echo(_json(algorithm, programs, order))
        else:
            typer.echo(_text(algorithm, programs, stages, source, order))
            if bits is not None:
                typer.echo(derive_fixed.widths(algorithm, both))


def _programs(algorithm: BilinearAlgorithm, order: str) -> tuple[Programs, Stages | None]:
    """({kind: Program}, what `textbook.search` says of their lengths): shipped, kept or found."""
    from winogen.codegen import textbook
    from winogen.program.iterated import parts, programs_of
    from winogen.progress import counting, working

    if order != "program":
        return programs_of(algorithm, order), None
    key = textbook.digest(algorithm)
    if (split := parts(algorithm)) is not None:
        _, outer, inner = split

        def compose() -> dict[str, Any]:
            names = f"F({outer.m}, {outer.r}) and F({inner.m}, {inner.r})"
            with working(f"searching for short programs of {names}"):
                return {kind: one.to_json() for kind, one in programs_of(algorithm).items()}

        def read(data: dict[str, Any]) -> Programs:
            return textbook.checked(algorithm, {kind: {"program": data[kind]} for kind in data})

        return _keeper()(["composed", key], compose, read), None

    def search() -> Stages:
        with counting(f"searching for short programs of F({algorithm.m}, {algorithm.r})") as step:
            return textbook.search(algorithm, min(os.cpu_count() or 1, 3), step)

    def check(data: Stages) -> tuple[Programs, Stages]:
        return textbook.checked(algorithm, data), data

    if key in textbook.shipped():
        return check(textbook.shipped()[key])
    found: tuple[Programs, Stages] = _keeper()(["programs", key], search, check)
    return found


def _keeper() -> Keeper:
    """What keeps results of searches; nothing does on systems that kernels are not for."""
    from winogen.errors import UnsupportedSystem

    try:
        from winogen.toolchain.derived import kept
    except UnsupportedSystem:
        return lambda key, make, check: check(make())
    return kept


def _in(format: OutputFormat, transform: Transform, points: str | None, moduli: str | None) -> str:
    """The file of a transform in a format for compilers."""
    from winogen.codegen import dialects, fpcore, naming

    if format is OutputFormat.c:
        return transform.header
    given = {"points": points, "moduli": moduli}
    made_of = {name: getattr(transform, name) for name, values in given.items() if values}
    command = naming.derive_command(
        transform.m, transform.r, format.value, made_of, transform.order, transform.stride
    )
    if format is OutputFormat.fpcore:
        return fpcore.render(transform, command)
    return dialects.render(transform, format.value, command)


def _file(
    algorithm: BilinearAlgorithm,
    points: str | None,
    moduli: str | None,
    order: str,
    format: OutputFormat,
) -> str:
    """The same of an algorithm, whose programs have to be found, or were and are kept."""
    from winogen.codegen import keeping, transforms
    from winogen.progress import working

    keeping.keep_by(_keeper())
    m, r, stride = algorithm.m, algorithm.r, algorithm.stride
    with working(f"searching for short programs of F({m}, {r})"):
        found = transforms.load(m, r, points, moduli=moduli, order=order, stride=stride)
    return _in(format, found, points, moduli)


def _json(algorithm: BilinearAlgorithm, programs: Programs | None, order: str) -> str:
    data = algorithm.to_dict() | ({} if order == "program" else {"order": order})
    if programs is not None:
        data["ops"] = {kind: programs[kind].counts().to_dict() for kind in KINDS}
    # One row of a matrix, or one kind of operations, per line.
    fields = []
    for key, value in data.items():
        text = json.dumps(value)
        if key in ("AT", "G", "BT"):
            text = "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in value) + "\n  ]"
        elif key == "ops":
            rows = (f"    {json.dumps(kind)}: {json.dumps(ops)}" for kind, ops in value.items())
            text = "{\n" + ",\n".join(rows) + "\n  }"
        fields.append(f'  "{key}": {text}')
    return "{\n" + ",\n".join(fields) + "\n}"


def _text(
    algorithm: BilinearAlgorithm,
    programs: Programs | None,
    stages: Stages | None,
    source: str,
    order: str,
) -> str:
    from winogen.codegen.ctext import routine
    from winogen.numerics import estimate

    m, r, n, products = algorithm.m, algorithm.r, algorithm.n, algorithm.products
    origin = algorithm.moduli or algorithm.points or ()
    stride = f" at stride {algorithm.stride}" if algorithm.stride > 1 else ""
    first = f"{algorithm.stride}*i" if algorithm.stride > 1 else "i"
    lines = [
        f"F({m}, {r}){stride}: {m} outputs of a {r}-tap filter from {n} inputs",
        "",
        f"  {'moduli' if algorithm.moduli else 'points'}           "
        + (in_one_line(origin) or ("of its parts" if stride else "none needed")),
        f"  source           {source}",
        f"  multiplications  {products} instead of {m * r} in 1D, {products**2} instead of "
        + f"{(m * r) ** 2} in 2D",
        "  verified         y = A^T [(G g) * (B^T d)] gives y[i] = sum_k "
        f"g[k] d[{first}+k] exactly",
    ]
    # What float16 has too few bits of exponent for, on numbers uniform in (-1, 1).
    for note in estimate(algorithm, dtype="float16", order="naive").notes:
        lines += wrap(note, 100, initial_indent="  in float16       ", subsequent_indent=" " * 19)
    if order != "program":
        lines.append(f"  order            {order}: every row of the matrices is summed on its own")
    for kind, matrix in algorithm.matrices.items():
        rows = [[str(value) for value in row] for row in matrix]
        lines += [
            "",
            f"{KINDS[kind].symbol} ({len(rows)} x {len(rows[0])})",
            *aligned(rows, 0, "  "),
        ]
    if programs is None:
        return "\n".join(lines)
    header = ["transform", "add", "mul", "fma", "instructions", "registers"]
    table = [header]
    for kind in KINDS:
        counts = programs[kind].counts().to_dict()
        table.append([kind, *(str(counts[name]) for name in header[1:])])
    lines += ["", *aligned(table, 1, "  ")]
    if stages is not None:
        lines += ["", "instructions, FMAs formed, on the way there"]
        lines += aligned(_stages(stages), 1, "  ")
        lines += [
            "  (rescaled: rows of B^T and columns of A^T scaled against G, as --format c prints it)"
        ]
    for kind, (_, symbol, source_letter, target) in KINDS.items():
        lines += ["", f"{kind} transform: {target} = {symbol} {source_letter}"]
        text = routine(programs[kind], source_letter, target)
        lines += [f"  {equation}" for equation in text.equations]
    return "\n".join(lines)


def _stages(stages: Stages) -> list[list[str]]:
    """Instructions per transform: row by row, by sub-expression hierarchy, best, rescaled."""
    ways = ("naive", "hierarchy", "best", "rescaled")
    rows = [[kind, *(str(stages[kind][way]) for way in ways)] for kind in KINDS]
    return [["transform", *ways], *rows]


def _numpy(algorithm: BilinearAlgorithm) -> str:
    """A module of Python with the three matrices, every entry rounded once."""
    origin = in_one_line(algorithm.moduli or algorithm.points or ())
    lines = [
        f"# F({algorithm.m}, {algorithm.r}): {origin}".rstrip(": "),
        "# y = AT @ ((G @ g) * (BT @ d))",
        "import numpy as np",
    ]
    for name, matrix in (("AT", algorithm.at), ("G", algorithm.g), ("BT", algorithm.bt)):
        # A quotient of integers is rounded to float64 once, as is the value of a root.
        rows = [[str(c) if isinstance(c, Fraction) else repr(float(c)) for c in r] for r in matrix]
        body = [f"        [{', '.join(row)}]," for row in rows]
        lines += ["", f"{name} = np.array(", "    [", *body, "    ],", "    np.float64,", ")"]
    return "\n".join(lines)
