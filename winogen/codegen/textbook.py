"""Short programs of an algorithm's matrices as they stand, before scales move between them.

`winogen derive` shows these, and how much every stage of the search saved. They take seconds to
find, so those of the catalog are shipped in ``transforms/programs.json``, under a digest of the
three matrices.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache

from winogen import resources

FILE = "programs.json"
_KINDS = {"input": "bt", "filter": "g", "output": "at"}  # a transform's kind -> its matrix


def digest(algorithm) -> str:
    """Return what tells one set of exact matrices from all others."""
    data = algorithm.to_dict()
    return hashlib.sha256(json.dumps([data[k] for k in ("AT", "G", "BT")]).encode()).hexdigest()


def search(algorithm) -> dict:
    """Return {kind: {"program": as JSON, "naive", "hierarchy", "best", "rescaled": instructions}}.

    "naive" sums row by row, "hierarchy" shares sub-expressions, "best" is the program,
    "rescaled" what the header of the same algorithm takes, whose rows and columns are scaled.
    """
    from winogen.program import shortest_transforms, simplify
    from winogen.program.summation import summation

    rescaled = shortest_transforms(algorithm).programs
    result = {}
    for (kind, attribute), (source, target) in zip(_KINDS.items(), ("dv", "gu", "py")):
        matrix = getattr(algorithm, attribute)
        best = simplify(matrix, inputs=source, outputs=target)
        ways = {
            "naive": summation(matrix, "naive"),
            "hierarchy": simplify(matrix, strategies=("hierarchy",)),
            "best": best,
            "rescaled": rescaled[kind],
        }
        counts = {name: program.counts().instructions for name, program in ways.items()}
        result[kind] = {"program": best.to_json(), **counts}
    return result


def checked(algorithm, data: dict) -> dict:
    """Return {kind: Program} of what ``search`` returned once, each proven equal to its matrix.

    Raises whatever damaged data leads to: KeyError, TypeError, ValueError, VerificationError.
    """
    from winogen.program import Program

    programs = {}
    for kind, attribute in _KINDS.items():
        programs[kind] = Program.from_json(data[kind]["program"])
        programs[kind].verify(getattr(algorithm, attribute))
    return programs


@cache
def shipped() -> dict[str, dict]:
    """Return digest -> what ``search`` found, for all of the catalog; empty where none was made."""
    path = resources.folder("transforms") / FILE
    return json.loads(path.read_text("utf-8"))["programs"] if path.is_file() else {}


def listing(found: dict[str, dict], mark: str) -> str:
    """Return the text of the file that ships: one transform per line."""
    blocks = []
    for key, kinds in found.items():
        rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in kinds.items())
        blocks.append(f'"{key}": {{\n{rows}\n}}')
    note = json.dumps(mark)
    return f'{{"generated": {note},\n"programs": {{\n' + ",\n".join(blocks) + "\n}}\n"
