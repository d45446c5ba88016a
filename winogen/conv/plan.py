"""What a convolution will do and what it will cost, for people to read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from winogen.conv.cuts import MeasuredChoice, Missed
from winogen.program.summation import PROGRAM
from winogen.records import AXES, Precision, Sizes
from winogen.spelling import in_one_line

if TYPE_CHECKING:
    from winogen.conv.solver import Offer

Sets = tuple["tuple[str, ...] | None", ...]
_CODE = ("source", "rim_source")
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
    operation: str = "conv"  # or "conv_transpose", "weight_gradient", "gemm"
    parts: tuple[Plan, ...] = ()  # of a transposed layer: ordinary ones, one after the other
    machine: str = field(default="", compare=False)  # whose record it was planned by; "": not said

    @classmethod
    def of(cls, offer: Offer) -> Plan:
        """Return the plan of what a solver offers."""
        shapes, expected = offer.problem.shapes, offer.predictions
        fields: dict[str, Any] = {
            **shapes,
            "precision": Precision.of(shapes["dtype"]),
            "algorithm": expected[0].algorithm,
            "isa": offer.target.name,
            "threads": offer.threads,
            "predicted_error": expected[0].error,
            "predictions": expected,
            "no_kernel": offer.no_kernel,
        }
        return cls(**fields | offer.solver.described(offer))

    def __str__(self) -> str:
        if self.parts:
            return self._of_parts()
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
        return "\n".join([self._head(), *(f"  {name:<16} {text}" for name, text in rows)])

    def _head(self) -> str:
        """What is computed, of which arrays."""
        shapes = [self.input_shape, self.weight_shape, self.output_shape]
        if self.operation == "weight_gradient":
            shapes = [shapes[0], shapes[2], shapes[1]]
        arrays = "{} * {} -> {}".format(*("x".join(map(str, shape)) for shape in shapes))
        rank = f"{len(self.layout) - 2}d" if self.operation.startswith("conv") else ""
        numbers = f"{self.dtype}" if self.precision.plain else f"{self.precision.name};"
        return f"{self.operation}{rank} {numbers} {self.layout}: {arrays}"

    def _of_parts(self) -> str:
        """The same of a transposed layer: how its parts are computed."""
        calls, stride = _count(len(self.parts), "call"), " x ".join(map(str, self.stride))
        seconds = 1e3 * self.predictions[0].seconds
        lines = [f"stride {stride}, {calls}, predicted {seconds:.3g} ms"]
        for part in dict.fromkeys(map(str, self.parts)):
            lines += part.splitlines()
        return "\n  ".join([self._head(), *lines, f"machine {self.machine}"])

    def to_dict(self) -> dict[str, Any]:
        """Return all but the C as what JSON can hold."""
        kept = asdict(self, dict_factory=lambda items: {k: v for k, v in items if k not in _CODE})
        return {
            **kept,
            "sizes": dict(self.sizes),
            "predictions": [one._asdict() for one in self.predictions],
            "parts": [one.to_dict() for one in self.parts],
        }

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
        if self.tile is None or self.operation != "conv":
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
            texts = [None if one is None else in_one_line(one) for one in sets]
            named = [(f"{name} ({axis})", text) for axis, text in zip(AXES[-len(texts) :], texts)]
            rows += named if len({*texts[-2:]}) > 1 else [(name, texts[-1])] if texts else []
        if self.order != PROGRAM:
            rows.append(("transforms add", f"row by row, order {self.order}"))
        return [(name, text) for name, text in rows if text is not None]


def _said(measured: MeasuredChoice) -> str:
    """What was measured, in one line."""
    time, planned = (f"{1e3 * s:.3g} ms" for s in (measured.seconds, measured.planner_seconds))
    return (
        f"{time}, {measured.gain:.2f} times as fast as what was predicted to be fastest "
        f"({planned}); {_count(measured.threads, 'thread')}, {measured.date}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
