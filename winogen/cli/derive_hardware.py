"""`winogen derive --format verilog` and `hls`: modules, testbenches and proofs, or a header."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.codegen.verilog.files import ModuleOptions

TWO_AXES = typer.Option(
    False, "--2d", help="With --format verilog or hls: of tiles, columns first, then rows."
)
FOLDED = typer.Option(
    False, "--folded", help="With --2d, a column a cycle, and two buffers between the passes."
)
PIPELINE = typer.Option(
    None, metavar="N", help="With --format verilog, N stages that end in registers, per pass."
)
DELAY = typer.Option(
    None, metavar="ADDERS", help="In place of it: at most so many adders between registers."
)
FRACTION = typer.Option(
    None,
    metavar="BITS",
    help="With --format verilog or hls, coefficients rounded to so many binary places, with "
    "a bound of the error: for irrational ones.",
)
OUTPUT = typer.Option(
    None,
    "--output",
    "-o",
    metavar="DIR",
    help="With --format verilog or hls: write a file for each module, and testbenches.",
)
PROVE = typer.Option(False, "--prove", help="With --format verilog: prove the modules, by Yosys.")
# The formats that an option is for.
_TAKEN_WITH = {
    "2d": "verilog and hls",
    "fraction": "verilog and hls",
    "output": "verilog and hls",
    "folded": "verilog",
    "pipeline": "verilog",
    "delay": "verilog",
    "prove": "verilog",
}


def check(format: str, given: Mapping[str, object]) -> None:
    """Refuse the options of hardware with formats that have no use for them.

    ``given``: {name: value}. Raises InvalidValue.
    """
    from winogen.errors import InvalidValue

    for name, allowed in _TAKEN_WITH.items():
        if given[name] not in (None, False) and format not in allowed.split(" and "):
            raise InvalidValue(f"{name}: got it with --format {format}; allowed: with {allowed}")


def options(bits: tuple[int, int], channels: int, given: Mapping[str, Any]) -> ModuleOptions:
    """Return what modules are to be. ``bits``: of inputs and filters. ``given``: as of `check`."""
    from winogen.codegen.verilog.files import ModuleOptions
    from winogen.errors import InvalidValue

    stages = given["pipeline"]
    if stages is not None and stages < 1:
        raise InvalidValue(f"pipeline: got {stages}; allowed: 1 or more")
    return ModuleOptions(
        *bits,
        channels,
        axes=2 if given["2d"] else 1,
        folded=given["folded"],
        stages=stages or 0,
        delay=given["delay"],
        fraction=given["fraction"],
    )


def words(options: ModuleOptions) -> str:
    """The options of a command as it would be typed, those that differ from the defaults."""
    found = [f"--bits {options.bits}"]
    if options.filter_bits != options.bits:
        found[0] += f",{options.filter_bits}"
    found += [f"--channels {options.channels}"] if options.channels > 1 else []
    found += [f"--pipeline {options.stages}"] if options.stages else []
    found += [f"--delay {options.delay}"] if options.delay is not None else []
    found += ["--2d"] if options.axes == 2 else []
    found += ["--folded"] if options.folded else []
    found += [f"--fraction {options.fraction}"] if options.fraction is not None else []
    return " ".join(found)


def write(
    algorithm: BilinearAlgorithm,
    format: str,
    points: str | None,
    moduli: str | None,
    options: ModuleOptions,
    output: str | None,
    proven: bool,
) -> None:
    """Print modules, or write them and their testbenches into a folder; prove them if asked.

    ``format``: "verilog", or "hls" for a header, which is one file.
    """
    from winogen.codegen.naming import derive_command, name_of
    from winogen.codegen.verilog import files
    from winogen.progress import working

    folder = None if output is None else _folder(output)
    if proven:
        from winogen.toolchain import yosys

        yosys.check_tools()
    given = {"points": points, "moduli": moduli}
    origin = {"points": algorithm.points, "moduli": algorithm.moduli}
    made_of = {key: map(str, origin[key] or ()) for key, values in given.items() if values}
    command = derive_command(algorithm.m, algorithm.r, format, made_of, stride=algorithm.stride)
    command += f" {words(options)}"
    name = f"{name_of(algorithm, points is moduli is None)}_int{options.bits}"
    if options.filter_bits != options.bits:
        name += f"_by_int{options.filter_bits}"
    name += f"_fraction{options.fraction}" if options.fraction is not None else ""
    with working(f"searching for programs of adders for F({algorithm.m}, {algorithm.r})"):
        if format == "hls":
            found = {f"winogen_{name}.h": files.header(algorithm, name, command, options)}
        else:
            made = files.designs(algorithm, name, command, options)
            found = files.modules(made)
            found |= {} if folder is None else files.benches(made)
    if folder is None:
        typer.echo("\n".join(found.values()), nl=False)
    else:
        _write(folder, found)
        typer.echo(f"{folder}: {len(found)} file{'s' if len(found) > 1 else ''}")
    if proven:
        with working("proving"):
            for line in (line for one in made.values() for line in yosys.prove(one)):
                typer.echo(line, err=folder is None)


def _folder(output: str) -> Path:
    from winogen.files import check_folder

    folder = Path(output)
    check_folder(folder)
    return folder


def _write(folder: Path, contents: Mapping[str, str]) -> None:
    from winogen.files import check_regular, whole_folder

    for name in contents:
        check_regular("output", folder / name, "files that are not there yet, or regular ones")
    with whole_folder(folder) as draft:
        for name, text in contents.items():
            (draft / name).write_text(text, "utf-8")
