"""What transforms and their functions are called, and which command writes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from winogen.codegen.shipped import entry_made_of, entry_name
from winogen.program.summation import PROGRAM
from winogen.spelling import in_one_line

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm


def derive_command(
    m: int,
    r: int,
    format: str,
    made_of: Mapping[str, Iterable[str]],
    order: str = PROGRAM,
    stride: int = 1,
) -> str:
    """Return the command that writes F(m, r) in a format.

    ``made_of``: {"points" or "moduli": what was given}, or nothing.

    >>> derive_command(2, 3, "rust", {"points": ["0", "1", "-1", "inf"]}, "huffman")
    "winogen derive 2 3 --format rust --points '0,1,-1,inf' --order huffman"
    """
    words = [f"winogen derive {m} {r} --format {format}"]
    words += [f"--stride {stride}"] if stride > 1 else []
    words += [f"--{option} '{in_one_line(values, ',')}'" for option, values in made_of.items()]
    words += [f"--order {order}"] if order != PROGRAM else []
    return " ".join(words)


def name_of(algorithm: BilinearAlgorithm, default: bool = False) -> str:
    """Return what functions of an algorithm are called: as the catalog has it, or by a digest.

    ``default``: whether nobody named its points or moduli.

    >>> from winogen.algebra import cook_toom
    >>> name_of(cook_toom(4, 3, "0,1,-1,2,-2,inf")), name_of(cook_toom(2, 3), default=True)
    ('f4_3_classic', 'f2_3')
    """
    m, r = algorithm.m, algorithm.r
    if default:
        return entry_name(m, r, stride=algorithm.stride)
    for option in ("points", "moduli"):
        values = [str(value) for value in getattr(algorithm, option) or ()]
        known = entry_made_of(m, r, option, values) if values else None
        if known is not None:
            return known
    return digest_name(algorithm)


def digest_name(algorithm: BilinearAlgorithm) -> str:
    """Return f4_3_<digest>, of the matrices, so that scaled algorithms have names of their own."""
    what = json.dumps([algorithm.to_dict()[key] for key in ("AT", "G", "BT")])
    digest = hashlib.sha256(what.encode()).hexdigest()[:8]
    return entry_name(algorithm.m, algorithm.r, digest, algorithm.stride)
