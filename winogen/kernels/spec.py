"""Kernels of convolutions: everything that is fixed when their C is written, and their struct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from winogen.kernels.kind import EPILOGUE, MEMORY, SCHEDULE, Buffer, Fields, Spec, finish
from winogen.kernels.variant import Variant, named
from winogen.kernels.work import Work
from winogen.records import CODE_TYPE, Precision, Target, Tuning
from winogen.typing import Border, PaddingMode

BORDERS: tuple[Border, ...] = get_args(Border)
PADDING_MODES: tuple[PaddingMode, ...] = get_args(PaddingMode)  # the index is the C's number

# Fields that all kernels have.
_COMMON: Fields = (
    ("Images, and groups of channels.", "int64_t", ("batch", "groups")),
    ("Channels and filters of a group: C, M.", "int64_t", ("channels", "filters")),
    ("Rows and columns of input and output.", "int64_t",
     ("height", "width", "out_height", "out_width")),
    ("Rows and columns of taps of a filter.", "int64_t", ("kernel_height", "kernel_width")),
    ("Steps from one window to the next.", "int64_t", ("stride_h", "stride_w")),
    ("Steps from one tap to the next.", "int64_t", ("dilation_h", "dilation_w")),
    ("Rows of padding above, columns before.", "int64_t", ("pad_top", "pad_left")),
    ("What the padding is, see source_index().", "int", ("padding_mode",)),
    ("Outputs that a call computes.", "int64_t", ("row_begin", "row_end", "col_begin", "col_end")),
    ("Where numbers of the arrays lie.", "winogen_strides",
     ("input", "output", "add", "add_after")),
    ("Numbers of the input, in all.", "int64_t", ("input_numbers",)),
    ("What is done where the sums are.", "int", ("add_early", "relu", "capped")),
    *EPILOGUE,
    ("Size of a block, in tiles or outputs.", "int64_t",
     ("block_rows", "block_cols", "block_images")),
    ("Blocks of a group and image.", "int64_t", ("grid_rows", "grid_cols")),
    ("Shares of a block, if threads share it.", "int64_t", ("shares",)),
    *SCHEDULE,
    ("Terms of a chain of additions.", "int64_t", ("depth",)),
    ("Whether outputs go past the caches.", "int", ("non_temporal",)),
    ("Whether denormals count as zeros.", "int", ("flush_denormals",)),
    *MEMORY,
)  # fmt: skip
# Fields of kernels of volumes.
_DEEP: Fields = (
    (
        "Planes of input, output and filter; all planes of volumes are images.",
        "int64_t",
        ("in_depth", "out_depth", "kernel_depth"),
    ),
    ("Steps and padding along the depth.", "int64_t", ("stride_d", "dilation_d", "pad_front")),
)
# Fields of kernels whose filters are those of all phases of a transposed layer.
_SPREAD: Fields = (
    ("Steps between outputs of one phase.", "int64_t", ("spread_h", "spread_w")),
    ("Outputs left out before the first.", "int64_t", ("crop_h", "crop_w")),
    ("Rows and columns of all phases.", "int64_t", ("whole_height", "whole_width")),
    (
        "Filters of a phase in whole vectors, and those that exist.",
        "int64_t",
        ("phase_filters", "phase_lanes"),
    ),
)
# Fields of kernels with narrower numbers in arrays than in the arithmetic.
_NARROW: Fields = (
    (
        "Where outputs lie in the array: `output` is for the buffer.",
        "winogen_strides",
        ("results",),
    ),
    ("Outputs that wait for the array.", "winogen_buffer", ("unit",)),
)
# Fields of kernels of codes.
_CODES: Fields = (
    ("What counts as zero, of the numbers that codes stand for.", "int64_t", ("x_zero",)),
    ("What numbers that are added are multiplied by.", "double", ("add_factor",)),
)


@dataclass(frozen=True)
class KernelSpec(Spec):
    """Variant, layout, numbers, target, transforms and tuning; all else is known at run time.

    ``transform_h`` and ``transform_w`` are the 1D algorithms along the height and the width, None
    without tiles. ``border`` says how tiles that touch the padding are made: "unswitch" (code by
    border class), "buffer" (padding is copied into a tile buffer), "indirect" (a table of pointers
    with a shared zero vector). ``fixed`` are sizes that the variant wants compiled in,
    ``compiled`` is what else.
    """

    inputs = ("input", "packed", "bias", "slopes", "add", "add_after")
    packs = ("weight",)

    variant: str
    layout: str  # "NCHW" | "NHWC"
    precision: Precision
    target: Target
    tuning: Tuning
    transform_h: Any = None
    transform_w: Any = None
    border: str = "unswitch"
    fixed: tuple[tuple[str, int], ...] = ()
    compiled: Any = None
    profile: bool = False  # export `<prefix>_profile`, nanoseconds per stage (one thread)
    rank: int = 2  # 3: of volumes

    @classmethod
    def of(cls, work: Work) -> KernelSpec:
        """Return the kernel that computes ``work``, a work with a variant."""
        along_h, along_w = work.transforms
        return cls(
            work.variant,
            work.layout,
            work.precision,
            work.target.storing(*(number.name for number in work.precision.stored)).using(
                *work.target.multiplying(work.precision.format)
            ),
            work.tuning.compiled,
            along_h,
            along_w,
            border=work.border if work.tiled else "unswitch",
            fixed=tuple(sorted({**named(work.variant).fixed(work), **_placed(work)}.items())),
            compiled=named(work.variant).compiled(work),
            rank=3 if work.deep else 2,
        )

    @property
    def entry(self) -> Variant:
        """Its entry in the register."""
        return named(self.variant)

    @property
    def name(self) -> str:
        """What files of its kernel are called."""
        tile = [t.name for t in dict.fromkeys(self.transforms) if t]
        twin = ["3d"] * (self.rank == 3) + ["profile"] * self.profile
        return "_".join([self.variant, *tile, self.precision.arrays, self.layout.lower(), *twin])

    @property
    def transforms(self) -> tuple[Any, Any]:
        """The transforms along height and width."""
        return self.transform_h, self.transform_w

    @property
    def apart(self) -> bool:
        """Whether the micro-kernels, and what follows the store, are compiled apart.

        Kernels of many tiles and layers share them. Others are few, and those that finish a few
        pixels at a time would lose by a call what it saves.
        """
        kept = self.precision.format.summing == "kept"
        return kept and any(self.transforms) and "rows" in self.entry.uses

    @property
    def fields(self) -> Fields:
        """The fields of its struct: for all kernels, then for the variant, then for narrow
        arrays."""
        variant = self.entry
        special = [(means, "int64_t", (name,)) for name, means in variant.fields_used.items()]
        buffers = variant.buffer_names(self.border, self.precision)
        special += [(means, "winogen_buffer", (name,)) for name, means in buffers.items()]
        deep, narrow = self.rank == 3, self.precision.narrow
        spread = ("spread", 1) in self.fixed
        codes = self.precision.arrays == CODE_TYPE
        more = *(_SPREAD * spread), *special, *(_NARROW * narrow), *(_CODES * codes)
        return (*_COMMON, *(_DEEP * deep), *more)

    def buffers(self, work: Work) -> dict[str, Buffer]:
        """Return the buffers of a call by name."""
        return self.entry.all_buffers(work)

    def given(self, work: Work) -> dict[str, Any]:
        """Return the fields for a call that are not attributes of ``work`` by the same name."""
        variant, narrow = self.entry, work.precision.narrow
        adds_early = variant.adds_early and not narrow
        phases, parts = variant.schedule(work)
        fields = {
            "padding_mode": PADDING_MODES.index(work.padding_mode),
            "add_early": adds_early,
            **finish(work.epilogue, work.epilogue.ends_early(adds_early), narrow),
            "block_images": work.images,
            "shares": variant.shares(work),
            "phases": phases,
            "parts": parts,
            "depth": variant.depth(work),
            "non_temporal": variant.streams(work),
            "packed_bytes": variant.packed_room(work),
            "x_zero": 0,  # of codes; whoever makes a call says others
            "add_factor": 1.0,
        }
        if narrow:
            fields |= {"results": work.output, "output": variant.unit_strides(work)}
        if work.phased:  # the arrays are those of all phases
            whole = work.phased
            names = ("height", "width"), ("out_height", "out_width"), ("pad_top", "pad_left")
            pairs = whole.size, whole.output_size, whole.padding
            for both, pair in zip(names, pairs):
                fields |= zip(both, pair)
            fields |= zip(("dilation_h", "dilation_w"), whole.dilation)
            fields["input_numbers"] = whole.input_numbers
        if work.spread and work.spread.filters:
            spread = work.spread
            fields |= zip(("spread_h", "spread_w"), spread.step)
            fields |= zip(("crop_h", "crop_w"), spread.crop)
            fields |= zip(("whole_height", "whole_width"), spread.whole)
            fields |= {"phase_filters": spread.filters, "phase_lanes": spread.lanes}
        return fields | variant.fields(work)


def _placed(work: Work) -> dict[str, int]:
    """What is compiled in of where outputs lie: only in planes are neighbours stored together."""
    if work.spread is None:
        return {}
    if work.spread.filters:
        return {"spread": 1}
    return {"spaced": 1} if work.layout == "NCHW" and work.spread.step[1] > 1 else {}
