"""What a convolution of 8-bit integers will do, for people to read."""

from __future__ import annotations

from dataclasses import dataclass, field

from winogen.conv.problem import Problem
from winogen.kernels.quantized import QuantizedWork


@dataclass(frozen=True)
class QuantizedPlan:
    """How `QConv2d` computes one problem; ``print(plan)`` shows it.

    >>> import numpy as np, winogen
    >>> conv = winogen.QConv2d(np.ones((8, 64, 3, 3), np.int8), padding=1)
    >>> plan = conv.plan((1, 64, 32, 32))
    >>> plan.algorithm, plan.multiplications
    ('direct', 4718592)
    """

    input_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    layout: str
    algorithm: str  # what runs, never "auto": "direct", "im2col", "depthwise" or "mcmr"
    instruction: str  # that multiplies
    isa: str  # the instruction set that the kernel is compiled for
    threads: int
    workspace_bytes: int  # scratch memory of one call
    packed_weight_bytes: int  # weights, and what else is known of filters, kept between calls
    multiplications: int  # of the definition; with "mcmr" those that are made
    source: str = field(repr=False)  # the C text of the kernel
    machine: str = field(default="", compare=False)  # whose record it was planned by; "": not said

    @classmethod
    def of(cls, problem: Problem, work: QuantizedWork, source: str) -> QuantizedPlan:
        """Return that of one call."""
        spec = work.spec
        return cls(
            input_shape=problem.input_shape,
            weight_shape=problem.layer.weight_shape,
            output_shape=problem.output_shape,
            layout=spec.layout,
            algorithm=spec.algorithm,
            instruction=spec.dot.what,
            isa=spec.target.name,
            threads=work.threads,
            workspace_bytes=spec.workspace_bytes(work),
            packed_weight_bytes=work.packed_bytes,
            multiplications=work.products,
            source=source,
        )

    def __str__(self) -> str:
        shapes = (self.input_shape, self.weight_shape, self.output_shape)
        head = "{} * {} -> {}".format(*("x".join(map(str, shape)) for shape in shapes))
        rows = [
            ("algorithm", f"{self.algorithm}, products by {self.instruction}"),
            ("instruction set", f"{self.isa}, {self.threads} thread{'s'[: self.threads > 1]}"),
            ("multiplications", f"{self.multiplications:,}"),
            ("packed weights", f"{self.packed_weight_bytes:,} bytes"),
            ("workspace", f"{self.workspace_bytes:,} bytes"),
            *([("machine", self.machine)] if self.machine else []),
        ]
        lines = [f"conv2d int8 {self.layout}: {head}"]
        return "\n".join(lines + [f"  {name:<16} {text}" for name, text in rows])
