"""One kind of kernel: everything that is fixed when its C is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

from winogen.kernels.variant import Variant, named
from winogen.kernels.work import Work
from winogen.loops.parameters import LoopProblem, Parameters
from winogen.records import Precision, Target, Tuning
from winogen.typing import Border

BORDERS: tuple[Border, ...] = get_args(Border)


@dataclass(frozen=True)
class KernelSpec:
    """Variant, layout, numbers, target, transforms and tuning; all else is known at run time.

    ``transform_h`` and ``transform_w`` are the 1D algorithms along the height and the width, None
    without tiles. ``border`` says how tiles that touch the padding are made: "unswitch" (code by
    border class), "buffer" (padding is copied into a tile buffer), "indirect" (a table of pointers
    with a shared zero vector). ``fixed`` are sizes that the variant wants compiled in,
    ``nest`` is a whole loop nest.
    """

    variant: str
    layout: str  # "NCHW" | "NHWC"
    precision: Precision
    target: Target
    tuning: Tuning
    transform_h: Any = None
    transform_w: Any = None
    border: str = "unswitch"
    fixed: tuple[tuple[str, int], ...] = ()
    nest: tuple[LoopProblem, Parameters] | None = None
    profile: bool = False  # export `<prefix>_profile`, seconds per stage (one thread)

    @classmethod
    def of(cls, work: Work) -> KernelSpec:
        """Return the kernel that computes ``work``, to which a variant is assigned."""
        along_h, along_w = work.transforms
        return cls(
            work.variant,
            work.layout,
            work.precision,
            work.target.storing(*(number.name for number in work.precision.stored)).using(
                *named(work.variant).extensions(work.target)
            ),
            work.tuning.compiled,
            along_h,
            along_w,
            border=work.border if work.tiled else "unswitch",
            fixed=tuple(sorted(named(work.variant).fixed(work).items())),
            nest=named(work.variant).nest(work),
        )

    @property
    def kind(self) -> Variant:
        """Its entry in the register."""
        return named(self.variant)

    def profiled(self) -> KernelSpec:
        """Return its twin that counts the time of each stage."""
        return replace(self, profile=True)
