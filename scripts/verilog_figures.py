"""Prints what transforms of the catalog take as Verilog: adders, cells after synthesis, depth.

    python scripts/verilog_figures.py               # every rational entry up to n = 8
    python scripts/verilog_figures.py f2_3 f4_3     # these
    python scripts/verilog_figures.py --check       # every form proven, simulated on 1000 tiles
    python scripts/verilog_figures.py --check --form pipelined f2_3
    python scripts/verilog_figures.py --trees       # a tile by columns and rows, and in other ways

Beside each module stands one that sums every row of the matrix on its own. `--trees` has the input
transform of F(4x4, 3x3) for 16 bits as the DLA-like designs of the Koios benchmarks (VTR) have it:
each of 36 outputs by a tree of adders of its own, of up to 16 terms; and as a program of the whole
tile. Needs Yosys, and Icarus
Verilog for `--check` (Debian: apt-get install yosys iverilog).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from winogen.codegen import transforms
from winogen.codegen.shipped import catalog
from winogen.codegen.verilog.bench import bench
from winogen.codegen.verilog.files import ModuleOptions, designs
from winogen.codegen.verilog.module import Module, of_cases
from winogen.program import adder_program_2d
from winogen.program.kinds import KINDS
from winogen.program.summation import summation
from winogen.toolchain import yosys

LARGEST = 8  # inputs of a tile along an axis
FORMS = {
    "combinational": ModuleOptions(),
    "pipelined": ModuleOptions(delay=1),
    "folded": ModuleOptions(axes=2, folded=True),
}
HEAD = (
    "entry", "transform", "adders", "bits", "cells", "depth", "rows: adders", "bits", "cells",
    "depth", "cells, of rows",
)  # fmt: skip


def entries(names: list[str]) -> list[str]:
    """Those named, or all whose coefficients are rational and that are not too large."""
    found = names or [
        name
        for name, entry in catalog().items()
        if entry["n"] <= LARGEST and "sqrt" not in str(entry)
    ]
    if unknown := set(found) - set(catalog()):
        raise SystemExit(
            f"entry: got {', '.join(sorted(unknown))}; allowed: {', '.join(catalog())}"
        )
    return found


def algorithm_of(name: str):
    """The algorithm that an entry was made of, before any row was scaled."""
    entry = catalog()[name]
    origin = {key: tuple(entry.get(key) or ()) or None for key in ("points", "moduli")}
    stride = entry.get("stride", 1)
    if stride > 1:
        return transforms.derive(entry["m"], entry["r"], stride=stride)[0]
    if origin["moduli"]:
        return transforms.derive(entry["m"], entry["r"], moduli=",".join(origin["moduli"]))[0]
    points = ",".join(origin["points"]) if origin["points"] else None
    return transforms.derive(entry["m"], entry["r"], points)[0]


def costs(*modules: Module) -> tuple[int, int, int]:
    """(adders and subtractors, their bits, cells of gates after synthesis), as Yosys has them."""
    with TemporaryDirectory() as folder:
        top = modules[-1].name
        Path(folder, "m.v").write_text("\n".join(one.text for one in modules))
        script = (
            f"read_verilog -sv m.v; hierarchy -top {top}; proc; flatten; opt; "
            f"write_json n.json; synth -top {top}; tee -q -o s stat"
        )
        command = ["yosys", "-q", "-p", script]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        cells = int(re.findall(r"Number of cells: +(\d+)", Path(folder, "s").read_text())[-1])
        module = json.loads(Path(folder, "n.json").read_text())["modules"][top]
    sums = [c for c in module["cells"].values() if c["type"] in ("$add", "$sub", "$neg")]
    return len(sums), sum(len(c["connections"]["Y"]) for c in sums), cells


def table(names: list[str]) -> None:
    """Print the costs of every transform along one axis, for numbers of 8 bits."""
    widths = [16, 9, *map(len, HEAD[2:])]

    def line(*cells: object) -> None:
        print("  ".join(f"{c!s:<{w}}" if k < 2 else f"{c!s:>{w}}"
                        for k, (c, w) in enumerate(zip(cells, widths))), flush=True)  # fmt: skip

    line(*HEAD)
    for name in names:
        for kind, one in designs(algorithm_of(name), name, "", ModuleOptions()).items():
            transform = one.transform
            letters = {"inputs": KINDS[kind].source, "outputs": KINDS[kind].target}
            rows = summation(transform.matrix, "naive", **letters)
            plain = of_cases(rows, f"{transform.name}_rows", kind, transform.inputs)
            ours, theirs = costs(one.modules[-1]), costs(plain)
            ratio = f"{ours[2] / theirs[2]:.2f}" if theirs[2] else ""
            line(name, kind, *ours, one.modules[-1].depth, *theirs, plain.depth, ratio)


def trees() -> None:
    """Print what the input transform of a tile of 16 bits takes in three ways."""
    one = designs(algorithm_of("f4_3_classic"), "f4_3", "", ModuleOptions(bits=16, axes=2))["input"]
    matrix = one.transform.matrix
    whole = [[a * b for a in first for b in second] for first in matrix for second in matrix]
    inputs = [range_ for row in one.transform.inputs for range_ in row]
    programs = {
        "36 trees": summation(whole, "pairwise", inputs="d", outputs="v"),
        "whole": adder_program_2d(matrix, bits=16),
    }
    made = {name: [of_cases(p, "tile", "input", (inputs,))] for name, p in programs.items()}
    print(f"{'F(4x4, 3x3), input':<24}{'adders':>8}{'bits':>8}{'cells':>8}{'depth':>8}")
    for name, modules in (made | {"columns, then rows": one.modules}).items():
        adders, bits, cells = costs(*modules)
        print(f"{name:<24}{adders:>8}{bits:>8}{cells:>8}{modules[-1].depth:>8}", flush=True)


def check(names: list[str], forms: list[str]) -> None:
    """Prove these forms of every transform, and simulate them."""
    proven = simulated = cut = 0
    for name in names:
        for form in forms:
            for one in designs(algorithm_of(name), name, "", FORMS[form]).values():
                proofs = list(yosys.prove(one))
                proven += len(proofs)
                cut += sum("there are more" in line for line in proofs)
                with TemporaryDirectory() as folder:
                    files = {f"{part.name}.v": part.text for part in one.modules} | bench(one)
                    for file, text in files.items():
                        Path(folder, file).write_text(text)
                    command = ["iverilog", "-g2005", "-y", ".", "-o", "x", f"{one.name}_tb.v"]
                    subprocess.run(command, cwd=folder, check=True)
                    run = subprocess.run(
                        ["vvp", "x"], cwd=folder, capture_output=True, text=True, check=True
                    )
                    if not run.stdout.startswith("PASS"):
                        raise SystemExit(f"{one.name}: {run.stdout}")
                    simulated += 1
            print(f"{name}: {form}, proven and simulated", flush=True)
    print(
        f"{len(names)} entries: {proven} proofs, {cut} of them of handshakes for the first cycles "
        f"only; {simulated} simulations of 1000 tiles or more"
    )


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="ENTRY")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--form", choices=FORMS, action="append", help="with --check: only these")
    parser.add_argument("--trees", action="store_true")
    arguments = parser.parse_args()
    if arguments.trees:
        trees()
        return
    names = entries(arguments.names)
    if arguments.check:
        check(names, arguments.form or list(FORMS))
    else:
        table(names)


if __name__ == "__main__":
    main()
