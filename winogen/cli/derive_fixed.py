"""`winogen derive --format fixed` and `--bits`: headers of integers, and how wide all becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from winogen.cli.options import integers
from winogen.columns import aligned
from winogen.errors import InvalidValue

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.codegen.keeping import Keeper
    from winogen.fixed import Integral


_LANES = {"q7": 8, "q15": 16}  # fractions of a sign and so many bits, and their lanes


def read_bits(text: str | None) -> tuple[tuple[int, int], int | None]:
    """Return the bits of inputs and of filters, and of lanes where `--bits` asks for these.

    Raises InvalidValue.

    >>> read_bits(None), read_bits("8,6"), read_bits("q15")
    (((8, 8), None), ((8, 6), None), ((16, 16), 16))
    """
    if text in _LANES:
        lanes = _LANES[text]
        return (lanes, lanes), lanes
    allowed = "2 to 16, two of them with a comma for inputs and filters, q7 or q15"
    try:
        numbers = integers("bits", "8" if text is None else text, 1, 2)
    except InvalidValue as error:
        got = str(error).partition("; allowed")[0]
        raise InvalidValue(f"{got}; allowed: {allowed}") from None
    if not all(2 <= one <= 16 for one in numbers):
        raise InvalidValue(f"bits: got {str(text)[:60]!r}; allowed: {allowed}")
    return (numbers[0], numbers[-1]), None


def header(
    algorithm: BilinearAlgorithm,
    points: str | None,
    moduli: str | None,
    bits: tuple[int, int],
    channels: int,
    lanes: int | None,
    slow: bool,
    keep: Keeper,
) -> str:
    """Return a header that computes in integers.

    ``bits``: of inputs and of filters; in ``lanes`` of so many bits, with rounding shifts.
    ``slow``: multiplications are. ``keep``: what keeps programs that were searched for.
    """
    from winogen.codegen import fixed, naming
    from winogen.codegen import lanes as narrow
    from winogen.progress import working

    name = naming.name_of(algorithm, points is moduli is None)
    command = _command(algorithm, points, moduli, slow)
    with working(f"searching for short programs of F({algorithm.m}, {algorithm.r})"):
        made = _whole(algorithm, bits[0], slow, keep)
        if lanes is not None:
            kind = f"q{lanes - 1}"
            return narrow.render(made, lanes, f"{name}_{kind}", f"{command} --bits {kind}")
        command += f" --bits {bits[0]}"
        name += f"_int{bits[0]}"
        if bits[1] != bits[0]:
            command += f",{bits[1]}"
            name += f"_by_int{bits[1]}"
        command += f" --channels {channels}" if channels > 1 else ""
        return fixed.render(made, fixed.widths(made, *bits, channels), name, command)


def _whole(algorithm: BilinearAlgorithm, bits: int, slow: bool, keep: Keeper) -> Integral:
    """The algorithm in integers, by adders and shifts for a processor that multiplies slowly."""
    from winogen.fixed import adders, integral
    from winogen.program import Program

    made = integral(algorithm)
    if not slow:
        return made

    def search() -> dict[str, Any]:
        programs = adders.search(made.matrices, bits=bits)
        return {kind: one.to_json() for kind, one in programs.items()}

    def check(data: dict[str, Any]) -> Integral:
        programs = {kind: Program.from_json(listing) for kind, listing in data.items()}
        return adders.with_programs(made, programs)

    found: Integral = keep(["adders", algorithm.to_dict(), bits], search, check)
    return found


def _command(
    algorithm: BilinearAlgorithm, points: str | None, moduli: str | None, slow: bool
) -> str:
    """The command that derives a header in integers, before the options of its kind."""
    from winogen.codegen.naming import derive_command

    origin = {"points": algorithm.points, "moduli": algorithm.moduli}
    given = {"points": points, "moduli": moduli}
    made_of = {name: map(str, origin[name] or ()) for name, values in given.items() if values}
    command = derive_command(algorithm.m, algorithm.r, "fixed", made_of, stride=algorithm.stride)
    return command + (" --multiplier slow" if slow else "")


def widths(algorithm: BilinearAlgorithm, bits: tuple[int, int]) -> str:
    """Return what inputs and filters of so many bits become, as lines."""
    from winogen.codegen.fixed import told, with_fewer_bits
    from winogen.fixed import integral
    from winogen.fixed.ranges import signed

    made, (inputs, filters) = integral(algorithm), map(signed, bits)
    rows = [["integers", "one axis", "bits", "both axes", "bits"]]
    rows += [["inputs", *[str(inputs), str(bits[0])] * 2]]
    if filters != inputs:
        rows += [["filters", *[str(filters), str(bits[1])] * 2]]
    for kind, given in (("input", inputs), ("filter", filters)):
        one, both = (made.operands(kind, given, axes) for axes in (1, 2))
        rows += [[f"transformed {kind}s", str(one), str(one.bits), str(both), str(both.bits)]]
    rows += [["scale of results", made.spelled(1), "", made.spelled(2), ""]]
    for sums in (32, 64):
        most = [str(made.channels(inputs, filters, sums, axes)) for axes in (1, 2)]
        rows += [[f"channels, sums of {sums} bits", most[0], "", most[1], ""]]
    lines = ["", *aligned(rows, 1, "  ")]
    fewer = with_fewer_bits(made, inputs, filters)
    return "\n".join([*lines, *([f"  {told(fewer, inputs, filters)}"] if fewer else [])])
