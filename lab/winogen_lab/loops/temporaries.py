"""What nests keep besides arrays and packed filters, beside the patch matrix of im2col.

Keane's thesis has it in Tables 4.1 to 4.3. A nest copies inputs where they are padded or lie
otherwise, a tile at a time, and keeps sums that are not complete; one that does neither reads
inputs where they lie, behind guards, and needs no byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any

from winogen.records import NUMBERS, Target
from winogen.tuning.layers import BenchLayer
from winogen_lab.loops.build import build
from winogen_lab.loops.parameters import LoopProblem, Parameters
from winogen_lab.loops.rules import strategies
from winogen_lab.loops.tasks import problem_of_layer
from winogen_lab.loops.usual import usual


@dataclass(frozen=True)
class Temporaries:
    """Bytes of one image: of the patch matrix, of the usual nest, and the least and the most of
    the usual nests of all micro-kernels.
    """

    layer: str
    im2col: int
    usual: int
    least: int
    most: int
    bare: int  # of a nest that reads inputs where they lie

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return asdict(self)


def temporaries(layers: Iterable[BenchLayer], layout: str, target: Target) -> Iterator[Temporaries]:
    """Yield the bytes of each layer."""
    for layer in layers:
        problem = problem_of_layer(layer, layout, target)
        names = strategies(target, problem.kernel)
        nests = (usual(problem, target, name) for name in names)
        all_ = [nest_bytes(problem, nest, target) for nest in nests]
        yield Temporaries(
            layer.name,
            im2col_bytes(problem),
            nest_bytes(problem, usual(problem, target), target),
            min(all_),
            max(all_),
            nest_bytes(problem, bare(problem, target), target),
        )


def im2col_bytes(problem: LoopProblem) -> int:
    """Return the bytes of a patch matrix of the whole map: H·W·C·K² numbers.

    >>> im2col_bytes(LoopProblem.of("NCHW", 96, 256, (27, 27), (5, 5), padding=(2, 2, 2, 2)))
    6998400
    """
    numbers = prod(problem.output_size) * problem.channels * prod(problem.kernel)
    return numbers * NUMBERS[problem.dtype].itemsize


def nest_bytes(problem: LoopProblem, nest: Parameters, target: Target) -> int:
    """Return the bytes of a nest's tile of inputs and of its sums."""
    made = build(problem, nest, target)
    return (made.tile + made.sums) * NUMBERS[problem.dtype].itemsize


def bare(problem: LoopProblem, target: Target) -> Parameters:
    """Return a nest that copies nothing and keeps no sums."""
    name = "outer-yxc" if problem.layout == "NCHW" else "filters-yxc"
    return replace(usual(problem, target, name), image=problem.image_layout, copies="implicit",
                   rows=1, blocks=(), order=("M", "H", "W"))  # fmt: skip
