"""The rounding error of an algorithm, measured on random tiles.

Two protocols. The literature's protocol (Barabasz, Anderson, Soodhalter, Gregg, TOMS 2020, arXiv
1803.10986) has one tile, one channel, filter and input uniform in (-1, 1), and gives the mean over
trials of sum |error| / outputs against float64. The practical one is what a layer does: many
channels, filters transformed in float64, the shipped programs, fused multiply-adds.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from winogen.errors import InvalidValue
from winogen.numerics.samples import Samples
from winogen.numerics.watched import Watched
from winogen.records import Precision
from winogen.rounding.data import REFERENCES, Distribution, Draw, distribution_of
from winogen.rounding.formats import Arithmetic
from winogen.rounding.stages import Stages
from winogen.rounding.tiles import Direct, Rounding, axes_of, direct, winograd
from winogen.spelling import in_one_line

LITERATURE: dict[str, Any] = {}  # the defaults of `measure`
PRACTICAL: dict[str, Any] = {
    "channels": 64,
    "order": "program",
    "distribution": "normal",
    "filters": "float64",
    "fused": True,
    "trials": 1000,
}
if TYPE_CHECKING:
    from winogen.numerics.compiled import Runner

_CHUNK = 1 << 19  # numbers in the largest array at a time, so that it stays in cache


@dataclass(frozen=True, repr=False)
class Measurement:
    """Errors of one algorithm over many trials; ``print`` shows them.

    ``mean`` is the figure of the literature: sum of |error| over a tile, divided by its outputs,
    averaged over trials; its 95 % confidence interval is mean ± ``half_width``. Where an output
    overflows, its error is infinite.
    """

    mean: float
    half_width: float
    maximum: float  # the largest |error|
    relative_l2: float  # ||error|| / ||reference||, all trials together
    relative_max: float  # max |error| / max |reference|
    ulp_mean: float  # |error| in units of the last place of the reference
    ulp_median: float
    trials: int
    outputs: int  # of one tile
    ranges: dict = field(compare=False)  # stage -> the largest |value| in it
    settings: dict  # the arguments of `measure`
    errors: np.ndarray = field(compare=False)  # (m_h, m_w, trials), signed
    # What the format's exponent had too few bits for, stage by stage.
    notes: tuple[str, ...] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the mean."""
        return self.mean - self.half_width, self.mean + self.half_width

    def to_dict(self) -> dict:
        """Plain numbers for JSON, without the single errors."""
        data = {k: v for k, v in asdict(self).items() if k != "errors"}
        return data

    def __repr__(self) -> str:
        head = "<Measurement {algorithm}, {dims}D, channels {channels}, {dtype}: ".format(
            **self.settings
        )
        return f"{head}mean |error| {self.mean:.3g} ± {self.half_width:.1g}>"

    def __str__(self) -> str:
        rows = [
            ("mean |error|", f"{self.mean:.3e} ± {self.half_width:.1e} (95 %)"),
            ("max |error|", f"{self.maximum:.3e}"),
            ("relative L2", f"{self.relative_l2:.3e}"),
            ("max / max", f"{self.relative_max:.3e}"),
            ("ulps", f"{self.ulp_median:.2f} median, {self.ulp_mean:.2f} mean"),
            *((f"max {stage}", f"{value:.3g}") for stage, value in self.ranges.items()),
            *(("note", note) for note in self.notes),
        ]
        head = "{algorithm}, {dims}D, {channels} channels, {dtype}, {order}, {distribution}"
        return "\n".join(
            [head.format(**self.settings), *(f"  {name:<24}{text}" for name, text in rows)]
        )


def measure(
    algorithm: Any,
    *,
    dims: int = 2,
    channels: int | None = None,
    trials: int | None = None,
    order: str = "huffman",
    distribution: str | Distribution | Draw = "uniform",
    inputs: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    dtype: str = "float32",
    storage: str | None = None,
    transforms: str | None = None,
    filters: str | None = None,
    precision: Precision | None = None,
    fused: bool = False,
    block: int | None = 64,
    chains: int = 1,
    reference: str | None = None,
    compiled: str | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure the rounding error of one tile of ``algorithm``.

    Parameters
    ----------
    algorithm
        A ``BilinearAlgorithm`` (used along both axes if ``dims`` is 2), a pair (height,
        width) of them or a ``BilinearAlgorithm2D``, a ``Transform`` of the catalog, or
        ``Direct(m, r)``.
    dims
        1 or 2.
    channels
        How many are summed, in the transformed domain; default 1, or what the data have.
    trials
        Random tiles, each with its own filter; default 5000, or what the data have.
    order
        How transforms add: "naive", "huffman" or "pairwise", row by row (see
        ``winogen.program.summation``), or "program", the shortest programs: a ``Transform`` ships
        its own, others are searched for the matrices.
    distribution
        "uniform" in (-1, 1) as in the literature, "uniform-dense" (all bits random),
        "normal", or "relu" (normal filters, inputs max(0, normal)); or a function (rng, shape) that
        returns an array of this shape, (channels, height, width, trials), or a ``Distribution``.
    inputs, weights
        Tiles (trials, channels, n_h, n_w) and filters (trials, channels, r_h, r_w)
        of your own instead of random ones; (trials, channels, n) and (trials, channels, r) in
        one dimension. One tile or filter alone is taken for every trial. They are rounded to
        ``storage`` first, and the reference is computed from the rounded data.
    dtype
        Arithmetic of products and sums: "float64", "float32", "float16", "bfloat16".
    storage
        What data, transformed data and outputs are rounded to; default ``dtype``. With
        "bfloat16" and ``dtype="float32"`` only storage is narrow.
    transforms
        Arithmetic of the input and output transforms; default ``dtype``. "float64" is
        the mixed precision of the literature (give ``filters`` too, or it follows).
    filters
        Arithmetic of the filter transform; default ``transforms``.
    precision
        The types of all numbers as kernels have them, instead of ``dtype``, ``storage`` and
        ``transforms``: narrow packed filters, narrow tiles, products of integers.
    fused
        Multiply-adds round once, as in compiled C with FMA.
    block
        Channels (products, for ``Direct``) that are summed before their sum joins the
        others; None for all of them.
    chains
        Of additions, in which the channels of a block take turns.
    reference
        "float64" or "exact" (rational); default: "exact" for float64, else "float64".
    compiled
        Measure compiled C instead of its numpy twin: None, an algorithm of ``conv2d``
        ("winograd2d", "mcmr", "direct", ...), whose transforms add in this order, with its own
        blocks and filters in float64; or "header": the C transforms of this order around a
        plain loop. Without ``fused`` the latter has the very bits of the numpy twin.
    seed
        Of the random numbers; the same arguments give the same result.

    Raises
    ------
    InvalidValue, InvalidType
        An argument that is not allowed.

    >>> from winogen.algebra import cook_toom
    >>> found = measure(cook_toom(2, 3), trials=2000)
    >>> 7e-8 < found.mean < 8e-8, measure(Direct(1, 3), trials=2000).mean < found.mean
    (True, True)
    """
    settings = {k: v for k, v in locals().items() if k != "algorithm"}
    if isinstance(precision, Precision):
        settings |= {"precision": precision.name, "dtype": precision.arrays}
    for name, value in (("channels", channels), ("trials", trials), ("chains", chains)):
        if value is None and name != "chains":
            continue
        if not isinstance(value, int) or value < 1:
            raise InvalidValue(f"{name}: got {value!r}; allowed: an integer >= 1")
    if block is not None and (not isinstance(block, int) or block < 1):
        raise InvalidValue(f"block: got {block!r}; allowed: an integer >= 1 or None")
    drawn_from = distribution_of(distribution)
    stages = Stages.of(dtype, storage, transforms, filters, precision)
    # Refuses fused multiply-adds that numpy cannot do.
    Arithmetic(stages.product, fused and not compiled)
    rounding = Rounding(stages, fused and not compiled, block, chains)
    exactly = REFERENCES.get(reference or ("exact" if dtype == "float64" else "float64"))
    if exactly is None:
        raise InvalidValue(f"reference: got {reference!r}; allowed: {', '.join(REFERENCES)}")
    if compiled is None:
        taps, tile, stride, run = _runner(algorithm, dims, order, rounding)
    else:
        from winogen.numerics.compiled import runner

        taps, tile, stride, run = runner(algorithm, dims, compiled, settings, precision)
    samples = Samples(
        *(drawn_from, stages.weights, stages.arrays, taps, tile, dims),
        weights=weights,
        inputs=inputs,
        channels=channels,
        trials=trials,
    )
    channels, trials = samples.channels, samples.trials

    rng = np.random.default_rng(seed)
    watch = Watched(stages)
    errors, references, ulps = [], [], []
    chunk = max(1, min(trials, _CHUNK // (channels * math.prod(tile))))
    for first in range(0, trials, chunk):
        count = min(chunk, trials - first)
        g, d = samples.draw(rng, first, count)
        truth: Any = exactly(g, d, stride)
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = run(g, d, watch)
        # Numbers that overflow are infinite or none at all: so are their errors.
        finite = np.isfinite(outputs)
        errors.append(np.where(finite, truth.errors(np.where(finite, outputs, 0)), np.inf))
        references.append(truth.values)
        ulps.append(np.abs(errors[-1]) / stages.arrays.ulp(truth.values))
    return _summary(
        np.concatenate(errors, -1),
        np.concatenate(references, -1),
        np.concatenate(ulps, -1),
        watch.ranges,
        {"algorithm": _text(algorithm), **settings, **samples.settings()},
        # The kernels of a precision scale what they narrow.
        watch.notes() if precision is None else (),
    )


def _runner(algorithm: Any, dims: int, order: str, rounding: Rounding) -> Runner:
    """Return (filter shape, input shape, stride, run(filters, inputs, watch) -> outputs)."""
    if isinstance(algorithm, Direct):
        m, r = algorithm.m, algorithm.r
        taps, tile = ((r, r), (m + r - 1,) * 2) if dims == 2 else ((1, r), (1, m + r - 1))
        return taps, tile, (1, 1), lambda g, d, watch: direct(rounding, g, d, watch)
    axes = axes_of(algorithm, dims, order)
    h, w = axes
    sizes = (h.r, w.r), (h.n, w.n), (h.stride, w.stride)
    return *sizes, lambda g, d, watch: winograd(axes, rounding, g, d, watch)


def _summary(
    errors: np.ndarray,
    references: np.ndarray,
    ulps: np.ndarray,
    ranges: dict,
    settings: dict,
    notes: tuple[str, ...],
) -> Measurement:
    sizes = np.abs(errors)
    per_tile = sizes.mean((0, 1))
    trials = per_tile.size
    spread = trials > 1 and np.isfinite(per_tile).all()
    deviation = per_tile.std(ddof=1) if spread else math.inf
    return Measurement(
        mean=float(per_tile.mean()),
        half_width=float(1.96 * deviation / math.sqrt(trials)),
        maximum=float(sizes.max()),
        relative_l2=_relative(np.linalg.norm(errors), np.linalg.norm(references)),
        relative_max=_relative(sizes.max(), np.abs(references).max()),
        ulp_mean=float(ulps.mean()),
        ulp_median=float(np.median(ulps)),
        trials=trials,
        outputs=sizes.shape[0] * sizes.shape[1],
        ranges=ranges,
        settings=settings,
        errors=errors,
        notes=notes,
    )


def _relative(error: Any, size: Any) -> float:
    """error / size, where data of one's own may well be 0."""
    if size == 0:
        return 0.0 if error == 0 else math.inf
    return float(error / size)


def _text(algorithm: Any) -> str:
    if isinstance(algorithm, tuple):
        return " x ".join(map(_text, algorithm))
    points = getattr(algorithm, "points", None)
    moduli = getattr(algorithm, "moduli", None)
    if points or moduli:
        kind = "moduli" if moduli else "points"
        values = in_one_line(moduli or points or ())
        return f"F({algorithm.m},{algorithm.r}) {kind} {values}"
    return str(algorithm)
