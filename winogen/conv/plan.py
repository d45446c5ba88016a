"""What a convolution will do and what it will cost, for people to read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from winogen.conv.cuts import MeasuredChoice, Missed
from winogen.program.summation import PROGRAM
from winogen.records import AXES, Precision, Sizes

if TYPE_CHECKING:
    from winogen.conv.solver import Offer

Sets = tuple["tuple[str, ...] | None", ...]
_CODE = ("source", "rim_source")
# What a plan has from its problem, and from its layer.
_OF_PROBLEM = ("input_shape", "output_shape", "direct_multiplications")
_OF_LAYER = ("weight_shape", "layout", "dtype", "stride")
ALTERNATIVES = 8  # the most candidates that a plan lists


class Prediction(NamedTuple):
    """What the planner expected of one of the best candidates."""

    seconds: float
    error: float  # max |y - y_exact| / max |y_exact| on normal data
    algorithm: str
    tile: tuple[int, ...] | None
    tag: str  # "gaussian": with the modulus x^2 + 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How one problem is computed; ``print(plan)`` shows it.

    >>> import numpy as np, winogen
    >>> conv = winogen.Conv2d(np.ones((8, 4, 3, 3), np.float32), padding=1, algorithm="winograd2d",
    ...                       tile=2)
    >>> plan = conv.plan((1, 4, 32, 32))
    >>> plan.algorithm, plan.tile, plan.multiplications
    ('winograd2d', (2, 2), 131072)
    """

    input_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: str
    precision: Precision  # the types of all numbers: of arrays, packed filters, products, …
    layout: str
    algorithm: str  # what runs: never "auto"
    variant: str  # ... and the variant of its kernel
    tile: tuple[int, ...] | None = None  # outputs of one Winograd tile, along each axis
    points: Sets | None = None  # along each axis; None: no tiles
    moduli: Sets | None = None  # polynomials, where they replace the points
    order: str = PROGRAM  # how the transforms add: "program" for the shortest, or row by row
    edge: str = "discard"  # or "direct" where partial tiles are left to direct convolution
    border: str = "unswitch"  # how tiles are made where they overlap the padding
    isa: str  # the instruction set that the kernels are compiled for
    threads: int
    workspace_bytes: int  # scratch memory of one call
    packed_weight_bytes: int  # weights as the kernels read them, kept between calls
    multiplications: int  # element-wise, of the whole call, tile waste and padding included
    direct_multiplications: int  # multiplications of the definition, to compare with
    predicted_error: float  # expected max |y - y_exact| / max |y_exact| on normal data
    sizes: Sizes = ()  # of the kernel's tuning that are not the usual ones
    measured: MeasuredChoice | None = None  # by `winogen tune`, which found this; None: predicted
    predictions: tuple[Prediction, ...] = field(repr=False)  # the first is what runs
    source: str = field(repr=False)  # the C text of the algorithm's kernel
    rim_source: str | None = field(default=None, repr=False)  # of the direct kernel at the rim
    with_compiler: Missed | None = None  # what would be faster, where kernels are not at hand
    no_kernel: str = ""  # why "fft" runs where no kernel is at hand and none may be compiled
    stride: tuple[int, ...] = (1, 1)  # of the layer, along each axis
    operation: str = "conv"  # or "weight_gradient", the gradient of its weights, or "gemm"
    machine: str = field(default="", compare=False)  # whose record it was planned by; "": not said

    @classmethod
    def of(cls, offer: Offer) -> Plan:
        """Return the plan of what a solver offers."""
        problem, layer = offer.problem, offer.problem.layer
        expected = offer.predictions
        fields: dict[str, Any] = {
            **{name: getattr(problem, name) for name in _OF_PROBLEM},
            **{name: getattr(layer, name) for name in _OF_LAYER},
            "precision": Precision.of(layer.dtype),
            "algorithm": expected[0].algorithm,
            "isa": offer.target.name,
            "threads": offer.threads,
            "predicted_error": expected[0].error,
            "predictions": expected,
            "no_kernel": offer.no_kernel,
        }
        return cls(**fields | offer.solver.described(offer))

    def __str__(self) -> str:
        times = self.direct_multiplications / max(1, self.multiplications)
        rows = [
            ("algorithm", self._algorithm()),
            *self._points(),
            ("instruction set", f"{self.isa}, {_count(self.threads, 'thread')}"),
            ("multiplications", f"{self.multiplications:,} ({times:.2f}x fewer than direct)"),
            ("packed weights", f"{self.packed_weight_bytes:,} bytes"),
            ("workspace", f"{self.workspace_bytes:,} bytes"),
        ]
        if self.sizes:
            tuned = ", ".join(f"{name} {size}" for name, size in self.sizes)
            rows.insert(1, ("tuned", tuned))
        if self.tile is None:
            rows[-3] = ("multiplications", f"{self.multiplications:,}")
        rows += zip(("predicted", *[""] * len(self.predictions)), self._alternatives())
        if self.measured:
            rows.append(("measured", _said(self.measured)))
        elif self._for_its_error():
            rows.append(("chosen", "the fastest as accurate as direct convolution usually is"))
        if self.no_kernel:
            rows.insert(1, ("", f"no kernel is at hand, and {self.no_kernel.partition('; ')[0]}"))
        if self.with_compiler:
            rows.append(("with a compiler", self._missed(self.with_compiler)))
        if self.machine:
            rows.append(("machine", self.machine))
        shapes = (self.input_shape, self.weight_shape, self.output_shape)
        head = "{} * {} -> {}".format(*("x".join(map(str, shape)) for shape in shapes))
        name = self.operation if self.operation != "conv" else f"conv{len(self.layout) - 2}d"
        lines = [f"{name} {self.precision.name}; {self.layout}: {head}"]
        if self.precision.plain:
            lines = [f"{name} {self.dtype} {self.layout}: {head}"]
        return "\n".join(lines + [f"  {name:<16} {text}" for name, text in rows])

    def to_dict(self) -> dict[str, Any]:
        """Return all but the C as what JSON can hold."""
        kept = asdict(self, dict_factory=lambda items: {k: v for k, v in items if k not in _CODE})
        return {
            **kept,
            "sizes": dict(self.sizes),
            "predictions": [one._asdict() for one in self.predictions],
        }

    def beside_shapes(self) -> dict[str, Any]:
        """Return all fields but those that follow from the problem and its layer."""
        shapes = (*_OF_PROBLEM, *_OF_LAYER)
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in shapes}

    @property
    def sets(self) -> tuple[tuple[str, ...] | None, ...]:
        """What each axis' transforms are made of, points or moduli; () without tiles."""
        return tuple(
            points or moduli for points, moduli in zip(self.points or (), self.moduli or ())
        )

    def _algorithm(self) -> str:
        name = self._named(self.algorithm, self.tile)
        if self.variant != self.algorithm:
            name = f"{name}, variant {self.variant}"
        if self.tile is None:
            return name
        if max(self.stride) > 1:
            name = f"{name}, stride {' x '.join(map(str, self.stride))}"
        return f"{name}, edge {self.edge}, border {self.border}"

    def _named(self, algorithm: str, tile: tuple[int, ...] | None) -> str:
        if tile is None:
            return algorithm
        taps = self.weight_shape[2:]
        if algorithm == "winograd1d":
            tile, taps = tile[-1:], taps[-1:]
        return f"{algorithm} F({'x'.join(map(str, tile))},{'x'.join(map(str, taps))})"

    def _missed(self, way: Missed) -> str:
        name = self._named(way.algorithm, way.tile)
        return f"{way.gain:.2f} times as fast: {name}, {1e3 * way.seconds:.3g} ms"

    def _for_its_error(self) -> bool:
        """Whether a faster way was left for its error."""
        chosen, *others = self.predictions
        return any(p.seconds < chosen.seconds and chosen.error < p.error for p in others)

    def _alternatives(self) -> list[str]:
        """What each of the best candidates was predicted to take."""
        return [
            f"{1e3 * p.seconds:.3g} ms, error {p.error:.1e}: "
            f"{self._named(p.algorithm, p.tile)} {p.tag}".rstrip()
            for p in self.predictions
        ]

    def _points(self) -> list[tuple[str, str]]:
        if self.tile is None:
            return []
        rows = []
        for name, sets in (("points", self.points or ()), ("moduli", self.moduli or ())):
            texts = [None if one is None else ", ".join(one) for one in sets]
            named = [(f"{name} ({axis})", text) for axis, text in zip(AXES[-len(texts) :], texts)]
            rows += named if len({*texts[-2:]}) > 1 else [(name, texts[-1])] if texts else []
        if self.order != PROGRAM:
            rows.append(("transforms add", f"row by row, order {self.order}"))
        return [(name, text) for name, text in rows if text is not None]


@dataclass(frozen=True)
class TransposedPlan:
    """How a transposed problem is computed: by ordinary ones; ``print(plan)`` shows it."""

    input_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]  # (C, M/groups, KH, KW)
    output_shape: tuple[int, ...]
    stride: tuple[int, ...]
    layout: str
    dtype: str
    seconds: float  # predicted, of a call
    parts: tuple[
        Plan, ...
    ]  # of some phases each, all together where filters are as many times more

    @property
    def algorithm(self) -> str:
        """What computes the phases."""
        return self.parts[0].algorithm

    @property
    def tile(self) -> tuple[int, ...] | None:
        """Outputs of a tile of one phase; None without tiles."""
        return self.parts[0].tile

    @property
    def variant(self) -> str:
        """Of the kernel of the first part."""
        return self.parts[0].variant

    @property
    def precision(self) -> Precision:
        """The types of numbers."""
        return self.parts[0].precision

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory of the part that needs most; parts run one after the other."""
        return max(part.workspace_bytes for part in self.parts)

    @property
    def packed_weight_bytes(self) -> int:
        """Of all parts."""
        return sum(part.packed_weight_bytes for part in self.parts)

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """What was expected of the whole call: its seconds, and the error of its worst part."""
        error = max(part.predicted_error for part in self.parts)
        first = self.parts[0].predictions[0]
        return (first._replace(seconds=self.seconds, error=error),)

    @property
    def multiplications(self) -> int:
        """Of the whole call."""
        return sum(part.multiplications for part in self.parts)

    @property
    def source(self) -> str:
        """The C of the kernels of all parts, each once."""
        return "\n".join(dict.fromkeys(part.source for part in self.parts))

    def to_dict(self) -> dict[str, Any]:
        """Return all but the C as what JSON can hold."""
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**own, "parts": [part.to_dict() for part in self.parts]}

    def __str__(self) -> str:
        shapes = (self.input_shape, self.weight_shape, self.output_shape)
        head = "{} * {} -> {}".format(*("x".join(map(str, shape)) for shape in shapes))
        name = f"conv_transpose{len(self.layout) - 2}d"
        stride = " x ".join(map(str, self.stride))
        lines = [
            f"{name} {self.dtype} {self.layout}: {head}",
            f"  stride {stride}, {_count(len(self.parts), 'call')}, predicted "
            f"{1e3 * self.seconds:.3g} ms",
        ]
        for part in dict.fromkeys(map(str, self.parts)):
            lines += [f"  {line}" for line in part.splitlines()]
        return "\n".join(lines)


def _said(measured: MeasuredChoice) -> str:
    """What was measured, in one line."""
    time, planned = (f"{1e3 * s:.3g} ms" for s in (measured.seconds, measured.planner_seconds))
    return (
        f"{time}, {measured.gain:.2f} times as fast as what was predicted to be fastest "
        f"({planned}); {_count(measured.threads, 'thread')}, {measured.date}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
