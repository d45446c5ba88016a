"""What winogen plans, generates and writes, as lines: their `diff` shows what a change changed.

    python scripts/freeze.py before.txt
    python scripts/freeze.py after.txt && diff before.txt after.txt

A line is a problem with its plan, the digests of its C and the values of its structs, or a network
with the digests of its files; or the error that it gets. Nothing is compiled or measured, and the
machine that this runs on does not matter. Problems are drawn from all layer sets, layouts, types,
limits, instruction sets and machines, networks at random, always the same ones. It takes minutes;
``--share 0.01`` draws a hundredth of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from freeze_machine import at, drawn, frozen
from freeze_networks import NETWORKS
from freeze_problems import PROBLEMS, Record, digest

from winogen.errors import WinogenError


def lines(share: float = 1.0) -> list[str]:
    """Return the lines, sorted."""
    with frozen(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(json.dumps(one, default=_plain) for one in _records(share))


def _records(share: float) -> Iterator[Record]:
    """Yield problems and networks with what is planned of each, as many as that share of all."""
    for kind, (count, draw) in (PROBLEMS | NETWORKS).items():
        for number in range(round(count * share)):
            random = Random(f"{kind} {number}")
            place, target, machine = drawn(random)
            at(target, machine)
            named, planned = draw(random, target, machine)
            try:
                record = planned()
            except WinogenError as error:
                record = {"error": f"{type(error).__name__}: {error}"}
            yield {"of": {"kind": kind, "number": number, **place, **named}, **record}


def _plain(value: Any) -> Any:
    """What JSON has no type for."""
    return asdict(value) if hasattr(value, "__dataclass_fields__") else str(value)


def main() -> int:
    """Write the file."""
    form = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("output", type=Path, metavar="OUT")
    parser.add_argument("--share", type=float, default=1.0)
    asked = parser.parse_args()
    text = "\n".join([*lines(asked.share), ""])
    asked.output.write_text(text)
    print(f"{text.count(chr(10))} lines, sha256 {digest(text)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
