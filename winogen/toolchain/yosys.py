"""Proofs of Verilog, of the netlists that Yosys makes of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from winogen.codegen.verilog.design import Design
from winogen.codegen.verilog.handshake import Handshake, handshake_claim
from winogen.codegen.verilog.handshake import prove as prove_handshake
from winogen.codegen.verilog.module import Module
from winogen.codegen.verilog.netlist import SCRIPT, claims
from winogen.codegen.verilog.netlist import prove as prove_netlist
from winogen.errors import BuildError, CompilerNotFound


def check_tools() -> None:
    """Raise CompilerNotFound with what to install, unless Yosys is there."""
    if not shutil.which("yosys"):
        raise CompilerNotFound(
            "prove: got no yosys, which reads Verilog for the proof; allowed: with it on the path, "
            "by Debian's package: apt-get install yosys"
        )


def prove(made: Design) -> Iterator[str]:
    """Prove the modules of a design; yield a line for each proof.

    A netlist says for all inputs what a module without a handshake computes (see `netlist`), and
    for all time what one with a handshake does with tiles (see `handshake`). Raises
    VerificationError with what is wrong, BuildError where Yosys refuses the text.
    """
    check_tools()
    with TemporaryDirectory(prefix="winogen-") as folder:
        for claim in claims(made):
            name = claim.module.name
            adders = prove_netlist(claim, netlist(made.modules, name, Path(folder)))
            yield (
                f"{name}: its matrix, widths and latency of {claim.module.stages} for all inputs; "
                f"{adders} adder{'s' if adders != 1 else ''}"
            )
        asked = handshake_claim(made)
        name = asked.module.name
        found = prove_handshake(asked, netlist(asked.parts, name, Path(folder), flat=False))
        yield f"{name}: its handshake, however both sides hesitate: {_described(found)}"


def _described(found: Handshake) -> str:
    if found.within is None:
        s = "s" if found.cycles != 1 else ""
        return f"{found.states} states, a tile in {found.cycles} cycle{s} without hesitation"
    return f"the {found.states} states of the first {found.within} cycles; there are more"


def netlist(
    parts: Sequence[Module], top: str, folder: Path, *, flat: bool = True
) -> dict[str, Any]:
    """Return the netlist of a module as Yosys writes it.

    ``flat``: with the modules inside as cells of it; else each of them is one cell.
    """
    for one in parts:
        (folder / f"{one.name}.v").write_text(one.text, "utf-8")
    files = " ".join(f"{one.name}.v" for one in parts)
    script = SCRIPT.format(files=files, top=top, flatten="flatten; " if flat else "")
    done = subprocess.run(
        ["yosys", "-q", "-p", f"{script}; write_json n.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"yosys: {done.stderr.strip() or done.stdout.strip()}")
    found: dict[str, Any] = json.loads((folder / "n.json").read_text("utf-8"))
    return found
