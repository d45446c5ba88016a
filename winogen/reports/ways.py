"""In which ways a layer can be computed: algorithms, tiles and points, as `Conv2d` takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from winogen.conv import Conv2d
from winogen.errors import Unsupported
from winogen.kernels import algorithms
from winogen.records import ARRAY_TYPES, PRODUCT_TYPES, TRIED_FILTER_TYPES, Precision
from winogen.reports.layers import Case
from winogen.toolchain import host_target
from winogen.typing import Algorithm

WINOGRAD: tuple[Algorithm, ...] = ("mcmr", "winograd1d", "winograd2d")
# All tiles of the algorithm that is usually fastest. The others transform alike and differ little
# in error; one of their tiles shows how much, and each more is a kernel to compile.
_FEW = (4,)
_MOST_POINTS = 10
# Of every number format, beside direct convolution.
_NARROW_TILES = (2, 4, 6)


@dataclass(frozen=True)
class LayerWay:
    """One way to compute the layer."""

    algorithm: str
    tile: int | None = None
    points: tuple[str, ...] | None = None  # None: the default ones
    name: str = ""
    moduli: tuple[str, ...] | None = None
    filter_dtype: str | None = None
    product_dtype: str | None = None
    arrays: str = "float32"

    @property
    def given(self) -> bool:
        """Whether points or moduli are asked for."""
        return bool(self.points or self.moduli)

    def options(self) -> dict:
        """The arguments of `Conv2d` that ask for it."""
        names = ("algorithm", "tile", "points", "moduli", "filter_dtype", "product_dtype")
        given = {name: getattr(self, name) for name in names}
        return {key: value for key, value in given.items() if value is not None}

    def label(self) -> str:
        """What it is called in tables."""
        name = " ".join(filter(None, (self.algorithm, self.name)))
        return name if self.numbers == "float32" else f"{name}, {self.numbers}"

    @property
    def numbers(self) -> str:
        """Which of its numbers are narrow: "float32" if none is."""
        if self.product_dtype:
            return f"{self.product_dtype} products"
        if self.filter_dtype:
            return f"{self.filter_dtype} filters"
        return "float32" if self.arrays == "float32" else f"{self.arrays} arrays"


def narrow(case: Case) -> list[LayerWay]:
    """Return direct convolution and a few tiles in every narrow format that has kernels."""
    formats: list[tuple[dict[str, Any], Precision]] = [
        ({"filter_dtype": name}, Precision.of("float32", name)) for name in TRIED_FILTER_TYPES
    ]
    for name in PRODUCT_TYPES:
        formats.append(({"product_dtype": name}, Precision.of("float32", products=name)))
    formats += [({"arrays": name}, Precision.of(name)) for name in ("float16",)]
    usual = [LayerWay("direct")]
    if max(case.problem.layer.stride + case.problem.layer.dilation) == 1:
        usual += [way for way in _tiles(case, "mcmr", False) if way.tile in _NARROW_TILES]
    return [
        replace(way, **options)
        for options, precision in formats
        if precision.arrays in ARRAY_TYPES
        for way in usual
        if way.algorithm in algorithms(precision, host_target())
    ]


def ways(case: Case, thorough: bool = False) -> tuple[list[LayerWay], list[dict]]:
    """Return what is tried in float32, and what does not apply: {"algorithm", "why"}.

    ``thorough``: every tile of every algorithm, and all other points and moduli of the catalog.
    """
    found = [LayerWay("auto"), LayerWay("direct"), LayerWay("im2col")]
    weight = np.zeros(case.problem.layer.weight_shape, np.float32)
    refused = []
    for algorithm in WINOGRAD:
        try:
            Conv2d(weight, algorithm=algorithm, **case.options())
        except Unsupported as error:
            why = str(error).partition("allowed: ")[2] or str(error)
            refused.append({"algorithm": algorithm, "why": why})
            continue
        found += _tiles(case, algorithm, thorough)
    return found, refused


def _tiles(case: Case, algorithm: str, thorough: bool) -> list[LayerWay]:
    from winogen.codegen import shipped

    kernel, stride = case.problem.layer.kernel, case.problem.layer.stride
    axes = list(zip(kernel, stride))[1 if algorithm == "winograd1d" else 0 :]
    along = sorted({axis for axis in axes if axis[0] > 1})
    if not along:
        return []  # F(1, 1) is the direct convolution of a 1 x 1 kernel
    sizes = [
        m
        for m in range(2, _MOST_POINTS)
        if m + along[-1][0] - 1 <= _MOST_POINTS
        and all(shipped.is_shipped(m, taps, stride=step) for taps, step in along)
    ]
    if algorithm != "mcmr" and not thorough:
        sizes = [m for m in sizes if m in _FEW]
    shape = f"{kernel[0]}x{kernel[1]}"
    found = []
    for m in sizes:
        m_h, m_w = (m if taps > 1 else 1 for taps in kernel)
        name = f"F({m},{kernel[1]})" if algorithm == "winograd1d" else f"F({m_h}x{m_w},{shape})"
        found.append(LayerWay(algorithm, m, None, name))
    one_kind = len(along) == 1 and kernel[0] == kernel[1]
    if thorough and algorithm == "mcmr" and one_kind and along[0][1] == 1:
        for key, entry in shipped.catalog().items():
            other = key != f"f{entry['m']}_{entry['r']}" and entry.get("stride", 1) == 1
            if other and entry["r"] == along[0][0] and entry["m"] in sizes:
                tag = key.partition("_")[2].partition("_")[2]
                name = f"F({entry['m']}x{entry['m']},{shape}) {tag}"
                points, moduli = (tuple(entry[made]) or None for made in ("points", "moduli"))
                found.append(LayerWay(algorithm, entry["m"], points, name, moduli))
    return found
