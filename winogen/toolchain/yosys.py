"""Proofs of Verilog: netlists by Yosys, and what its model checker ABC says of handshakes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from winogen.codegen.verilog.check import question
from winogen.codegen.verilog.design import Design
from winogen.codegen.verilog.netlist import SCRIPT, claims
from winogen.codegen.verilog.netlist import prove as prove_netlist
from winogen.errors import BuildError, CompilerNotFound, VerificationError

PROGRAMS = "yosys", "yosys-abc"
SECONDS = 60  # of one proof of a handshake


def check_tools() -> None:
    """Raise CompilerNotFound with what to install, unless all programs are there."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        raise CompilerNotFound(
            f"prove: got no {', '.join(missing)}, which prove Verilog; allowed: with them on the "
            "path, by Debian's package: apt-get install yosys"
        )


def prove(made: Design) -> Iterator[str]:
    """Prove the modules of a design; yield a line for each proof.

    A netlist says for all inputs what a module without a handshake computes (see `netlist`).
    Handshakes are checked for all behaviour of both sides, and so many cycles (see `check`).
    Raises VerificationError with what is wrong, BuildError where Yosys refuses the text.
    """
    check_tools()
    texts = {f"{one.name}.v": one.text for one in made.modules}
    with TemporaryDirectory(prefix="winogen-") as folder:
        for claim in claims(made):
            name = claim.module.name
            adders = prove_netlist(claim, netlist(texts, name, Path(folder)))
            yield (
                f"{name}: its matrix, widths and latency of {claim.module.stages} for all inputs; "
                f"{adders} adder{'s' if adders != 1 else ''}"
            )
    asked = question(made)
    with TemporaryDirectory(prefix="winogen-") as folder:
        cycles = check_assertions(asked.files, asked.name, asked.cycles, Path(folder))
    name = asked.name.removesuffix("_check")
    few = "" if cycles >= asked.cycles else f"; in {SECONDS} s no more than these"
    yield f"{name}: its handshake in {cycles} cycles, however both sides hesitate{few}"


def netlist(texts: Mapping[str, str], top: str, folder: Path) -> dict[str, Any]:
    """Return the netlist of a module as Yosys writes it, flat. ``texts``: {file: Verilog}."""
    _run_yosys(texts, f"{SCRIPT.format(files=' '.join(texts), top=top)}; write_json n.json", folder)
    found: dict[str, Any] = json.loads((folder / "n.json").read_text("utf-8"))
    return found


def check_assertions(texts: Mapping[str, str], top: str, cycles: int, folder: Path) -> int:
    """Check the assertions of a module from a reset on; return for how many cycles they hold.

    These are fewer than asked for where it takes longer than `SECONDS`.
    """
    _run_yosys(texts, _ASSERTIONS.format(files=" ".join(texts), top=top), folder)
    script = f"read_aiger n.aig; fold; strash; bmc3 -F {cycles} -T {SECONDS}"
    done = subprocess.run(
        ["yosys-abc", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    if wrong := re.search(r"was asserted in frame (\d+)", done.stdout):
        raise VerificationError(f"{top}: an assertion fails in cycle {wrong[1]}")
    if right := re.search(r"No output asserted in (\d+) frames", done.stdout):
        return int(right[1])
    raise BuildError(f"{top}: ABC says {done.stdout.strip()[-300:]}")


# Assertions as outputs of gates and registers, which ABC looks for an input to set.
_ASSERTIONS = (
    "read_verilog -formal {files}; prep -top {top} -flatten; async2sync; dffunmap; "
    "setundef -undriven -anyseq; delete -output; opt -full; techmap; opt -fast; dffunmap; "
    "abc -g AND -fast; opt_clean; write_aiger -I -B -zinit -no-startoffset n.aig"
)


def _run_yosys(texts: Mapping[str, str], script: str, folder: Path) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    done = subprocess.run(
        ["yosys", "-q", "-p", script], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"yosys: {done.stderr.strip() or done.stdout.strip()}")
