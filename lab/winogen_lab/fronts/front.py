"""Error against products per output, from direct convolution over Winograd's tiles to Fourier's.

A way computes m x m outputs of a K x K kernel from a tile of n x n inputs, n = m + K - 1. Errors
are relative L2 errors of float32 on normal data, 64 channels summed in blocks of 16, filters
transformed in float64: those that `winogen.rounding` predicts, and for the ways worth having, those
that are measured against float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from winogen.algebra import cook_toom, default_points, join, winograd
from winogen.algebra.bilinear import BilinearAlgorithm
from winogen.algebra.circle import between, gaussian
from winogen.codegen import shipped
from winogen.conv import Conv2d, Layer, fourier
from winogen.numerics import Direct, estimate, measure
from winogen.tasks.pareto import front

SETTINGS: dict[str, Any] = {
    "channels": 64,
    "block": 16,
    "distribution": "normal",
    "filters": "float64",
    "fused": True,
}
KINDS = ("direct", "points", "moduli, nested", "moduli, joined", "Fourier tiles", "FFT")
MOST_POINTS = 18  # of a tile by points: larger ones have errors of a per cent and more
MOST_ERROR = 300.0  # times that of direct convolution: beyond, nothing is shown
FFT_LENGTHS = (32, 64, 128)  # of whole transforms, by numpy
_SIXTH = "x-1, x+1, x^2+x+1, x^2-x+1, inf"


class Marked(NamedTuple):
    """An algorithm whose count is known from the literature, or stands for many."""

    m: int
    r: int
    moduli: str
    name: str


MARKED = (
    Marked(8, 3, "x, x-3/5, x+3/5, x-1, x+1, x-5/3, x+5/3, x^2+1, inf", "one x^2+1"),
    Marked(8, 3, "x, x-3/5, x+3/5, x-5/3, x+5/3, x^2+1, x^2+4, inf", "two such moduli"),
    Marked(6, 3, f"x, {_SIXTH}", "SFC-6"),
    Marked(7, 3, f"x^2, {_SIXTH}", "SFC-7"),
    *(Marked(17 - r, r, "fourier", "Fourier, 16 points") for r in (3, 5, 7)),
)


@dataclass(frozen=True)
class Way:
    """One way to compute a tile, and its error."""

    kind: str  # one of `KINDS`
    kernel: int
    m: int
    moduli: int  # without real roots, along each axis
    products: int  # real multiplications of a tile
    nested: int  # those of the same algorithm where they are nested
    predicted: float
    measured: float | None = None
    mark: str = ""
    best: bool = False  # no other way is better in products and in predicted error

    @property
    def per_output(self) -> float:
        """Multiplications for each output and channel."""
        return self.products / self.m**2

    @property
    def tile(self) -> str:
        """Its size, F(m x m, K x K)."""
        return f"F({self.m}x{self.m},{self.kernel}x{self.kernel})"


@dataclass(frozen=True)
class _Candidate:
    way: Way
    algorithm: Any = None  # what `measure` takes; None: `numpy.fft`


def fronts(
    kernels: Sequence[int],
    most: int = 16,
    trials: int = 40,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Return {"settings", "most", "trials", "kernels": [{"kernel", "ways": [...]}]}.

    ``most``: inputs of the largest tile along an axis. ``trials``: tiles that are measured of each
    way on the front, and of those with a mark; 0 measures nothing. ``say`` is told what is done.
    """
    pages = []
    for kernel in kernels:
        found = []
        for candidate in _candidates(kernel, most):
            say(f"{kernel}x{kernel}, {candidate.way.tile}")
            found.append(candidate)
        on_front = front((one.way.per_output, one.way.predicted) for one in found)
        ways = []
        for (way, algorithm), best in zip(((one.way, one.algorithm) for one in found), on_front):
            if trials and (best or way.mark or way.kind in ("direct", "FFT")):
                say(f"measuring {way.tile}")
                way = replace(way, measured=_measured(way, algorithm, trials))
            ways.append(replace(way, best=best))
        pages.append({"kernel": kernel, "ways": list(map(asdict, ways))})
    return {"settings": SETTINGS, "most": most, "trials": trials, "kernels": pages}


def ways_of(page: dict[str, Any]) -> list[Way]:
    """Return the ways of one kernel of a document."""
    return [Way(**fields) for fields in page["ways"]]


def render(document: dict[str, Any]) -> str:
    """Return tables of the ways on the fronts, those with marks, direct convolution and FFT.

    Errors are multiples of the predicted error of direct convolution.
    """
    lines = [_ROW.format("tile", "kind", "moduli", "products", "nested", "per output", "predicted",
                         "measured", "").rstrip()]  # fmt: skip
    for page in document["kernels"]:
        ways = ways_of(page)
        direct = next(way.predicted for way in ways if way.kind == "direct")
        shown = [
            way
            for way in ways
            if (way.best or way.mark or way.kind in ("direct", "FFT"))
            and way.predicted < MOST_ERROR * direct
        ]
        lines.append(f"\n{page['kernel']}x{page['kernel']}")
        for way in sorted(shown, key=lambda way: (-way.per_output, way.predicted)):
            measured = "" if way.measured is None else f"{way.measured / direct:.3g}"
            note = f"{'*' if way.best else ' '} {way.mark}".rstrip()
            nested = way.nested if way.nested != way.products else ""
            lines.append(
                _ROW.format(
                    way.tile, way.kind, way.moduli or "", way.products, nested,
                    f"{way.per_output:.2f}", f"{way.predicted / direct:.3g}", measured, note
                ).rstrip()
            )  # fmt: skip
    lines.append("\n* on the front; errors over the predicted error of direct convolution")
    return "\n".join(lines)


_ROW = "{:<16} {:<15} {:>6} {:>8} {:>6} {:>10} {:>9} {:>8} {}"


def _candidates(kernel: int, most: int) -> Iterator[_Candidate]:
    """Every way of one size of kernel; those with many products first."""
    yield _direct(kernel)
    for n in range(kernel + 1, min(most, MOST_POINTS) + 1):
        m = n - kernel + 1
        f = cook_toom(m, kernel, default_points(m, kernel))
        yield _nested("points", f)
    for n in range(max(6, kernel + 1), most + 1):
        for pairs in range(1, (n - 1) // 2 + 1):
            m = n - kernel + 1
            yield _nested("moduli, nested", winograd(m, kernel, between(n, pairs)))
            yield _joined("moduli, joined", winograd(m, kernel, gaussian(n, pairs)))
    for name, entry in sorted(shipped.catalog().items()):
        if entry["r"] == kernel and entry.get("moduli") and name.endswith("_gaussian"):
            yield _joined("moduli, joined", winograd(entry["m"], kernel, entry["moduli"]))
    marked = {one.m: one for one in MARKED if one.moduli == "fourier" and one.r == kernel}
    for n in range(max(4, kernel + 1), most + 1, 2 if kernel % 2 else 1):
        m = n - kernel + 1
        mark = marked.pop(m).name if m in marked else ""
        yield _joined("Fourier tiles", winograd(m, kernel, "fourier"), mark)
    for one in MARKED:
        if one.r == kernel and (one.moduli != "fourier" or one.m in marked):
            kind = "Fourier tiles" if one.moduli == "fourier" else "moduli, joined"
            yield _joined(kind, winograd(one.m, kernel, one.moduli), one.name)
    for length in FFT_LENGTHS:
        yield _fft(kernel, length)


def _direct(kernel: int) -> _Candidate:
    made = Direct(6, kernel)  # outputs of a tile do not matter, but for how many are measured
    error = estimate(made, **SETTINGS).relative_l2
    return _Candidate(Way("direct", kernel, 1, 0, kernel**2, kernel**2, error), made)


def _nested(kind: str, f: BilinearAlgorithm) -> _Candidate:
    error = estimate(f, **SETTINGS).relative_l2
    pairs = f.products - f.n
    return _Candidate(Way(kind, f.r, f.m, pairs, f.products**2, f.products**2, error), f)


def _joined(kind: str, f: BilinearAlgorithm, mark: str = "") -> _Candidate:
    both: Any = join(f, f)
    error = estimate(both, **SETTINGS).relative_l2
    pairs, nested = both.axes[0].pairs, f.products**2
    return _Candidate(Way(kind, f.r, f.m, pairs, both.products, nested, error, mark=mark), both)


def _fft(kernel: int, length: int) -> _Candidate:
    """A whole real transform, whose complex products take four real ones each, as in numpy."""
    m, channels = length - kernel + 1, SETTINGS["channels"]
    layer = Layer.of((channels, channels, kernel, kernel), "float32")
    problem = layer.problem((1, channels, length, length))
    error = fourier.predicted_error(problem, (length, length))
    products = 2 * length**2 - 4
    return _Candidate(Way("FFT", kernel, m, length // 2 - 1, products, products, error))


def _measured(way: Way, algorithm: Any, trials: int) -> float:
    if algorithm is not None:
        return measure(algorithm, trials=trials, **SETTINGS).relative_l2
    return _measured_fft(way.kernel, way.m + way.kernel - 1)


@lru_cache
def _measured_fft(kernel: int, length: int) -> float:
    """The error of `numpy.fft` in float32 on a map of this size."""
    draw = np.random.default_rng(0)
    channels = SETTINGS["channels"]
    x = draw.standard_normal((1, channels, length, length), dtype=np.float32)
    w = draw.standard_normal((8, channels, kernel, kernel), dtype=np.float32)
    y, exact = (
        Conv2d(w.astype(dtype), algorithm="fft", threads=1)(x.astype(dtype))
        for dtype in (np.float32, np.float64)
    )
    return float(np.linalg.norm(y - exact) / np.linalg.norm(exact))
