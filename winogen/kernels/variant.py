"""What a variant of a kernel says of itself, and the register of all of them.

A variant is one way to compute a convolution. One Python file says when it applies, its buffers,
its cost and what is compiled in; one template in ``csrc/kernels/`` has the C. An algorithm, as
users name it, is a family of variants; the first that applies is taken. Nothing about the shape of
a layer is decided in C.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from winogen.errors import InvalidValue
from winogen.kernels.count import Stages, of_call
from winogen.kernels.geometry import deep_taps_inside, is_streamed, strip_size, taps_inside, trimmed
from winogen.kernels.kind import Buffer, workspace_bytes
from winogen.kernels.registers import registers_of_steps
from winogen.kernels.work import Work, round_up
from winogen.plugins import offered
from winogen.records import PRODUCT_FORMATS, Machine, Precision, Sizes, Strides, Target, Tuning


class Cycles(NamedTuple):
    """Predicted cycles of one call on one of the threads that share it, stage by stage."""

    input: Any
    multiply: Any
    output: Any

    @property
    def total(self) -> Any:
        """All stages, one after the other."""
        return self.input + self.multiply + self.output


class Variant(ABC):
    """The base of all variants, with what most of them have in common.

    What is abstract has no default that is right by itself: sizes, memory, costs and counts.
    """

    name: str  # of the variant, unique
    algorithm: str  # the family, as `conv2d(algorithm=)` names it
    template: str  # in csrc/kernels/, or in its own folder
    # Of a variant from elsewhere: where its template lies, and the code that fills it in.
    folder: Path | None = None
    from_elsewhere: bool = False  # whether another distribution has it; it must be named
    title: str  # what the first lines of its C say
    along: tuple[bool, bool] = (False, False)  # the axes that are transformed, height and width
    joins: bool = False  # whether complex products of both axes are joined, see `transforms.joined`
    ranks: tuple[int, ...] = (1, 2)  # how many axes layers may have; one lies along the width
    # What algorithm="auto" considers: whether at all, and tiles up to which size.
    auto: bool = True
    largest_tile: int | None = None
    spans_images: bool = False  # whether a block may have several images
    # Whether taps that read zeros around the image only are left out: of all outputs, or of a row.
    skips_padding: bool = False
    rows_at_once: int = 1  # rows of outputs that a block has at least, if there are as many
    # Which calls of transposed layers it computes: "one" of a single phase, whose outputs lie
    # apart, and "all" where the filters are those of all phases.
    phases: tuple[str, ...] = ()
    # Whether its loops over tiles hold constants of transforms in vectors, where lanes of these may
    # be multiplied by.
    holds_constants: bool = False
    # Whether every two phases of `schedule` may be a block: transformed, and multiplied.
    shares_blocks: bool = False
    one_layer: bool = False  # whether all sizes of a layer are compiled in
    adds_early: bool = False  # whether what the epilogue adds is added before the store
    formats: tuple[str, ...] = ("real",)  # of products: names of PRODUCT_FORMATS
    widens_filters: bool = False  # whether filters may be packed in narrower numbers than float32
    # Whether arrays may hold narrower numbers than are computed with: read through a buffer.
    widens_arrays: bool = True
    # What fills the lanes of a register block that may have any size: "filters", while its rows are
    # pixels, or "pixels", while they are filters.
    in_lanes: str | None = None
    uses: tuple[str, ...] = ()  # the fields of Tuning that are compiled in
    tunable: tuple[str, ...] = ()  # fields that a single layer may set
    # What the struct of its kernels holds besides what all have: name -> a sentence.
    buffers_used: Mapping[str, str] = {}
    fields_used: Mapping[str, str] = {}

    # --- when it applies, and what is compiled in

    def transforms_along(self, rank: int) -> tuple[bool, ...]:
        """Return which axes of layers with so many axes are transformed: never the depth."""
        return (False, *self.along)[-rank:]

    def computes(self, precision: Precision) -> bool:
        """Whether its kernels compute with these types of numbers."""
        if precision.format.name not in self.formats:
            return False
        if precision.format.name != "real":
            asked = Precision.of(precision.arrays, products=precision.products)
            return precision == asked and precision.transforms == "float32"
        if self.widens_filters and precision.narrow_filter and not precision.mixed:
            precision = replace(precision, filters=precision.transforms)
        if self.widens_arrays:
            precision = replace(precision, arrays=precision.transforms)
        return precision.plain

    def applies(self, work: Work) -> bool:
        """Whether it can compute ``work``, which is not cut yet, and is meant for it."""
        return True

    def serves(self, work: Work) -> bool:
        """Whether it `applies`, and can write outputs to where they lie."""
        if work.deep is not None and 3 not in self.ranks:
            return False
        if work.spread is not None and ("all" if work.spread.filters else "one") not in self.phases:
            return False
        return self.applies(work)

    def suits(self, work: Work) -> bool:
        """Whether algorithm="auto" should consider it for ``work``, to which it applies."""
        return self.auto

    def view(self, work: Work) -> Work:
        """Return the work as the kernel sees it: channels as groups or not, say."""
        return trimmed(work) if self.skips_padding else work

    def taps_read(self, work: Work) -> float:
        """Return the taps that are computed for an output, on average over all outputs."""
        if self.skips_padding:
            return taps_inside(work, 0) * work.kernel[1] * deep_taps_inside(work)
        return work.taps

    def fixed(self, work: Work) -> dict[str, int]:
        """Return what is compiled in besides layout, numbers, target, transforms and tuning."""
        return {}

    def runs_on(self, target: Target) -> bool:
        """Whether a target has what its kernels cannot do without."""
        return any(target.multiplies(PRODUCT_FORMATS[name]) for name in self.formats)

    def compiled(self, work: Work) -> Any:
        """Return what else is compiled in: hashable, its repr says all of it; None for nothing.

        For variants whose kernels depend on more than sizes and tunings: what `Work.parameters`
        amounts to for this layer.
        """
        return None

    def context(self, compiled: Any, target: Target) -> dict[str, Any]:
        """Return what its template knows besides what all templates know, from `compiled`."""
        return {}

    @abstractmethod
    def tuning(self, target: Target, precision: Precision) -> Tuning:
        """Return the sizes of blocks for a target."""

    def registers(self, tuning: Tuning) -> int:
        """Return the vector registers that the micro-kernel wants for sums and operands."""
        if "rows" not in self.uses:
            return tuning.pixels
        return registers_of_steps(tuning.rows, tuning.vectors, tuning.chains)

    def sizes_fit(self, work: Work, tuning: Tuning) -> bool:
        """Whether it can compute ``work`` with these sizes."""
        return "band" not in self.uses or tuning.band % tuning.vectors == 0

    def parameters(self, work: Work) -> Iterator[Any]:
        """Yield parameters of its own that are worth trying, the most promising first.

        Where ``work`` has some, the parameters one step from them. They are hashable, and their
        method `to_dict` returns what JSON can hold.
        """
        return iter(())

    def parameters_from(self, fields: Mapping[str, Any]) -> Any:
        """Return its own parameters from what their `to_dict` gave; raises InvalidValue."""
        raise InvalidValue(f"parameters: got {fields!r}; allowed: none with {self.algorithm}")

    # --- memory

    @abstractmethod
    def buffers(self, work: Work) -> dict[str, Buffer]:
        """Return its buffers by name."""

    def fields(self, work: Work) -> dict[str, Any]:
        """Return the fields of the struct that only this variant has: pitches of buffers, say."""
        return {}

    @abstractmethod
    def packed_numbers(self, work: Work) -> Any:
        """Return how many numbers the packed filters are."""

    def buffer_names(self, border: str, precision: Precision) -> dict[str, str]:
        """Return name -> meaning of its buffers."""
        return dict(self.buffers_used)

    def unit(self, work: Work) -> tuple[Any, Any, Any]:
        """Return the most outputs that wait for each other in a buffer: rows, columns, filters.

        Where arrays hold narrower numbers than are computed with: the largest block that is handed
        to `finish_stored` at once.
        """
        raise NotImplementedError(f"{self.name}: unit")

    def unit_strides(self, work: Work) -> Strides:
        """Return the strides of that buffer: its rows begin at a vector."""
        rows, cols, filters = self.unit(work)
        if work.layout == "NHWC":
            return Strides(0, round_up(cols * filters, work.lanes), filters, 1)
        row = round_up(cols, work.lanes)
        return Strides(0, row, 1, rows * row)

    def all_buffers(self, work: Work) -> dict[str, Buffer]:
        """Return the buffers of its template, and the buffers of all templates for such numbers."""
        buffers = self.buffers(work)
        if not work.precision.narrow:
            return buffers
        (rows, _, filters), strides = self.unit(work), self.unit_strides(work)
        numbers = rows * strides.row if work.layout == "NHWC" else filters * strides.channel
        return {**buffers, "unit": Buffer(numbers * work.itemsize)}

    def workspace_bytes(self, work: Work) -> Any:
        """Return the bytes of scratch memory of one call, on all its threads."""
        return workspace_bytes(self.all_buffers(work), work.threads)

    # --- how it is cut

    def shares(self, work: Work) -> Any:
        """Return how many shares a block has; more than one where threads share it."""
        return 1

    def schedule(self, work: Work) -> tuple[int, int]:
        """Return (phases, parts of each)."""
        return 1, int(work.items * self.shares(work))

    def depth(self, work: Work) -> int:
        """Return how many terms (of tiles: channels) are summed before they join the other sums."""
        return work.tuning.depth

    def non_temporal(self, work: Work) -> bool:
        """Whether finished outputs leave by non-temporal stores."""
        return False

    def streams(self, work: Work) -> bool:
        """Whether the outputs that a call finishes leave by non-temporal stores."""
        if not work.precision.narrow:
            return self.non_temporal(work)
        if (work.precision.itemsize, work.precision.transforms) != (2, "float32"):
            return False
        # A vector of these numbers is half a line: whole ones have outputs of several vectors.
        _, _, filters = self.unit(work)
        dense = work.layout == "NHWC" and filters % (2 * work.lanes) == 0
        lines = work.filters % (2 * work.lanes) == work.output.pixel % (2 * work.lanes) == 0
        return dense and lines and work.target.masks and is_streamed(work, False)

    # --- cost

    def summation(self, tuning: Tuning, channels: int) -> dict[str, int]:
        """Return how it sums the channels of a group, as `measure` and `estimate` take it."""
        return {"block": tuning.depth, "chains": tuning.chains}

    def input_size(self, work: Work) -> tuple[Any, Any]:
        """Return the rows and columns of padded input below a block."""
        return strip_size(work)

    @abstractmethod
    def count(self, work: Work) -> Stages:
        """Count what the input, multiply and output stage do for one whole block of a group."""

    @abstractmethod
    def cycles(self, work: Work, machine: Machine) -> Cycles:
        """Predict what ``work`` costs on ``machine``: the price of what is counted."""

    def demands(self, work: Work) -> Stages:
        """Return what the three stages of a cut ``work`` do, all blocks together."""
        return of_call(work, self.count, self.input_size)

    def packed_bytes(self, work: Work) -> Any:
        """Return the bytes of the packed filters of all groups."""
        return self.packed_numbers(work) * work.precision.filter_itemsize

    def packed_room(self, work: Work) -> int:
        """Return the bytes that packed filters take up with what goes with them.

        These are a vector that may be read behind numbers of three bytes, and the scale of every
        filter for types with scales.
        """
        precision, room = work.precision, int(self.packed_bytes(work))
        if precision.filter_itemsize == 3:
            room = round_up(room + work.target.vector_bytes, work.itemsize)
        if precision.scaled:
            room += (work.groups * work.filters + work.lanes) * work.itemsize
        return room


_VARIANTS: dict[str, Variant] = {}
FFT = "fft"  # the algorithm without kernels: `numpy.fft` computes it, see `winogen.conv.fourier`
# Algorithms of other distributions: entry points name modules that register their variants. Such a
# module is imported when somebody names its algorithm, which algorithm="auto" never takes.
_OTHERS = "winogen.variants"


def register(variant: Variant, first: bool = False) -> Variant:
    """Add a variant to its family, behind its present members or before them."""
    global _VARIANTS
    if variant.name in _VARIANTS:
        raise ValueError(f"variant {variant.name!r} is registered already")
    entry = {variant.name: variant}
    _VARIANTS = {**entry, **_VARIANTS} if first else {**_VARIANTS, **entry}
    _families_changed()
    return variant


def unregister(name: str) -> None:
    """Forget a variant, as a test does that made one."""
    del _VARIANTS[name]
    _families_changed()


def _families_changed() -> None:
    """Forget what was concluded from the families: a plan asks the same thousands of times."""
    _able.cache_clear()
    general.cache_clear()
    _summation.cache_clear()


def variants() -> dict[str, Variant]:
    """Return all variants by name."""
    for module in offered(_OTHERS).values():
        module.load()
    return dict(_VARIANTS)


def named(name: str) -> Variant:
    """Return the variant of this name."""
    return _VARIANTS[name] if name in _VARIANTS else variants()[name]


def algorithms(
    precision: Precision | None = None,
    target: Target | None = None,
    rank: int | None = None,
    *,
    others: bool = True,
) -> tuple[str, ...]:
    """Return the names of all families, or of the families for a precision, on a target, for layers
    of so many axes.

    For a precision or a target, families of other distributions are left out, and without
    ``others``.
    """
    able = [
        variant.algorithm
        for variant in _VARIANTS.values()
        if not variant.from_elsewhere
        and (rank is None or rank in variant.ranks)
        and (precision is None or variant.computes(precision))
        and (target is None or variant.runs_on(target))
        and (target is None or precision is None or target.multiplies(precision.format))
    ]
    usual = rank is None or rank in Variant.ranks  # theirs, too
    named_only = others and precision is None and target is None and usual
    return tuple(dict.fromkeys([*able, *(offered(_OTHERS) if named_only else ())]))


def algorithms_beside(name: Any, rank: int | None = None) -> tuple[str, ...]:
    """Return the names of the families that ``name`` may be.

    Whoever names one of ours, as nearly everybody does, need not wait for a look at what other
    distributions offer.
    """
    ours = algorithms(rank=rank, others=False)
    return ours if name in ("auto", FFT, *ours) else algorithms(rank=rank)


def family(algorithm: str) -> list[Variant]:
    """Return the variants of an algorithm."""
    found = [variant for variant in _VARIANTS.values() if variant.algorithm == algorithm]
    if found or algorithm not in offered(_OTHERS):
        return found
    offered(_OTHERS)[algorithm].load()
    return [variant for variant in _VARIANTS.values() if variant.algorithm == algorithm]


@lru_cache(maxsize=256)
def general(algorithm: str, precision: Precision | None = None) -> Variant:
    """Return the variant of a family that applies to whatever no other is meant for.

    Of the variants for a ``precision``, if there are any.
    """
    able = _able(algorithm, precision) if precision else ()
    return (able or family(algorithm))[-1]


@lru_cache(maxsize=256)
def _able(algorithm: str, precision: Precision) -> tuple[Variant, ...]:
    """The variants of an algorithm that compute with these types of numbers."""
    return tuple(variant for variant in family(algorithm) if variant.computes(precision))


def is_tiled(algorithm: str) -> bool:
    """Whether an algorithm works on transformed tiles."""
    return any(general(algorithm).along)


def summation(
    algorithm: str,
    target: Target,
    channels: int,
    precision: Precision | None = None,
    sizes: Sizes = (),
) -> dict[str, int]:
    """Return how an algorithm sums the channels of a group, as `measure` and `estimate` take it.

    ``precision``: None for float32 throughout. ``sizes`` replace sizes of its tuning.

    >>> from winogen.kernels import summation
    >>> from winogen.records import TARGETS
    >>> summation("mcmr", TARGETS["avx512"], 256), summation("mcmr", TARGETS["avx512"], 64)
    ({'block': 32, 'chains': 1}, {'block': 16, 'chains': 1})
    """
    precision = precision or Precision.of("float32")
    return dict(_summation(algorithm, target, channels, precision, sizes))


@lru_cache(maxsize=1024)
def _summation(
    algorithm: str, target: Target, channels: int, precision: Precision, sizes: Sizes
) -> tuple[tuple[str, int], ...]:
    variant = general(algorithm, precision)
    tuning = variant.tuning(target, precision).with_sizes(sizes)
    return tuple(variant.summation(tuning, channels).items())


def assign(work: Work) -> Work:
    """Return the work with the variant that computes it assigned: its view, name and tuning.

    The variant is the work's own, or the first that applies.
    """
    variant = named(work.variant) if work.variant else first_that_applies(work)
    tuning = variant.tuning(work.target, work.precision).with_sizes(work.sizes)
    return replace(variant.view(work), variant=variant.name, tuning=tuning)


def first_that_applies(work: Work) -> Variant:
    """Return the variant of the work's algorithm that computes it."""
    able = _able(work.algorithm, work.precision)
    for variant in able:
        if variant.serves(work):
            return variant
    if not able:
        raise InvalidValue(
            f'algorithm: got "{work.algorithm}" for {work.precision.name}; allowed: '
            f"{', '.join(algorithms(work.precision)) or 'none'}"
        )
    raise InvalidValue(
        f"parameters: got {work.parameters}; allowed: legal ones of {work.algorithm} for this layer"
    )
