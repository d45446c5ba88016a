"""The same tiles through compiled C: the kernels of ``conv2d``, or the bare transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from winogen.algebra import cook_toom
from winogen.errors import InvalidValue
from winogen.records import FILTER_TYPES, PRODUCT_TYPES, Precision
from winogen.rounding.tiles import Direct, TileAxis, axes_of

Watch = Callable[[str, np.ndarray], None]  # told what each stage yields
Pair = tuple[int, int]
# (filter shape, input shape, stride, run(filters, inputs, watch) -> outputs), see
# `winogen.rounding.tiles`.
Runner = tuple[Pair, Pair, Pair, Callable[[np.ndarray, np.ndarray, Watch], np.ndarray]]
HEADER = "header"
_CONV2D = ("direct", "im2col", "winograd1d", "winograd2d", "mcmr")
_CDEF = "void winogen_tiles(int64_t, int64_t, int64_t, const {0} *, const {0} *, {0} *);"
_REAL = {"float32": "float", "float64": "double"}


def runner(
    algorithm: Any, dims: int, kernel: str, settings: dict, precision: Precision | None = None
) -> Runner:
    """Return (filter shape, input shape, stride, run(filters, inputs, watch)) for compiled C.

    ``kernel``: an algorithm of ``conv2d``, or "header": the C of the three transforms, generated
    for the order asked for, around a plain loop over channels, which has no ``precision``.
    """
    if kernel not in (*_CONV2D, HEADER):
        raise InvalidValue(
            f"compiled: got {kernel!r}; allowed: None, {', '.join((*_CONV2D, HEADER))}"
        )
    dtype = settings["dtype"]
    if dtype not in _REAL:
        raise InvalidValue(f"dtype: got {dtype!r} with compiled; allowed: {', '.join(_REAL)}")
    for name in ("storage", "transforms"):
        if settings[name] not in (None, dtype):
            raise InvalidValue(
                f"{name}: got {settings[name]!r} with compiled; allowed: None or {dtype}"
            )
    if kernel == HEADER:
        if precision:
            raise InvalidValue(
                f"precision: got {precision.name} with {HEADER}; allowed: an algorithm of conv2d"
            )
        return _header_runner(algorithm, dims, settings)
    return _conv2d_runner(algorithm, dims, kernel, dtype, settings["order"], _asked(precision))


def _asked(precision: Precision | None) -> dict[str, Any]:
    """The options of ``conv2d`` that ask for a precision."""
    if precision is None or precision.plain:
        return {}
    if precision.products in PRODUCT_TYPES:
        return {"product_dtype": precision.products}
    return {"filter_dtype": precision.filters} if precision.filters in FILTER_TYPES else {}


def _conv2d_runner(
    algorithm: Any, dims: int, kernel: str, dtype: str, order: str, asked: dict[str, Any]
) -> Runner:
    from winogen.conv import conv2d

    options: dict[str, Any] = {"algorithm": kernel}
    stride = (1, 1)
    if isinstance(algorithm, Direct):
        first = 1 if dims == 1 else None
        m, r = (first or algorithm.m, algorithm.m), (first or algorithm.r, algorithm.r)
    else:
        h, w = _both(algorithm, dims)
        m, r = (h.m, w.m), (h.r, w.r)
        stride = getattr(h, "stride", 1), getattr(w, "stride", 1)
        if kernel in ("winograd1d", "winograd2d", "mcmr"):
            one = cook_toom(1, 1) if kernel == "winograd1d" else h
            options |= {"tile": (one.m, w.m), "order": order, **_made_of(one, w)}
    n = (stride[0] * (m[0] - 1) + r[0], stride[1] * (m[1] - 1) + r[1])

    def run(filters: np.ndarray, inputs: np.ndarray, watch: Watch) -> np.ndarray:
        channels, trials = filters.shape[0], filters.shape[-1]
        # One group per trial: every tile has its own filter.
        weight = np.ascontiguousarray(filters.transpose(3, 0, 1, 2), dtype)
        image = np.ascontiguousarray(inputs.transpose(3, 0, 1, 2), dtype)
        y = conv2d(
            image.reshape(1, trials * channels, *n),
            weight,
            stride=stride,
            groups=trials,
            **options,
            **asked,
        )
        return y.reshape(trials, *m).transpose(1, 2, 0)

    return r, n, stride, run


def _made_of(*algorithms: Any) -> dict:
    """The points or moduli along height and width as ``conv2d`` takes them, None where nothing is
    transformed."""
    for name in ("points", "moduli"):
        sets = tuple(tuple(map(str, getattr(f, name, None) or ())) or None for f in algorithms)
        usual = (f.m == f.r == 1 or getattr(f, "stride", 1) > 1 for f in algorithms)
        if all(one or default for one, default in zip(sets, usual)):
            return {name: sets}
    raise InvalidValue(
        "compiled: got a kernel of conv2d with an algorithm that is not made of points alone or of "
        f"moduli alone; allowed: {HEADER}"
    )


def _both(algorithm: Any, dims: int) -> tuple[Any, Any]:
    """The 1D algorithms along the height and the width."""
    axes_of(algorithm, dims, "naive")  # raises for what is no algorithm
    if isinstance(algorithm, tuple):
        return algorithm
    if hasattr(algorithm, "h"):
        return algorithm.h, algorithm.w
    return (algorithm if dims == 2 else cook_toom(1, 1)), algorithm


# ---- the bare transforms -------------------------------------------------------------------------


def _header_runner(algorithm: Any, dims: int, settings: dict) -> Runner:
    from winogen.toolchain import host_target, load

    if isinstance(algorithm, Direct):
        raise InvalidValue(f"compiled: got {HEADER!r} with {algorithm}; allowed: direct, im2col")
    dtype, filters = settings["dtype"], settings["filters"] or settings["dtype"]
    if filters not in (dtype, "float64"):
        raise InvalidValue(f"filters: got {filters!r} with compiled; allowed: {dtype}, float64")
    h, w = axes_of(algorithm, dims, settings["order"])
    source = _source(_both(algorithm, dims), (h, w), _REAL[dtype], _REAL[filters])
    # With fused off the C must not contract either: then it has the bits of the numpy twin.
    flags = () if settings["fused"] else ("-ffp-contract=off",)
    library = load(source, _CDEF.format(_REAL[dtype]), host_target(), flags, name="tiles")
    pointer = library.ffi.typeof(f"{_REAL[dtype]}[]")

    def run(filters: np.ndarray, inputs: np.ndarray, watch: Watch) -> np.ndarray:
        channels, trials = filters.shape[0], filters.shape[-1]
        arrays = [
            np.ascontiguousarray(filters.transpose(3, 0, 1, 2), dtype),
            np.ascontiguousarray(inputs.transpose(3, 0, 1, 2), dtype),
            np.empty((trials, h.m, w.m), dtype),
        ]
        pointers = [library.ffi.from_buffer(pointer, array) for array in arrays]
        block = settings["block"] or channels
        library.lib.winogen_tiles(trials, channels, block, *pointers)
        return arrays[2].transpose(1, 2, 0)

    return (h.r, w.r), (h.n, w.n), (h.stride, w.stride), run


def _source(
    algorithms: tuple[Any, Any], axes: tuple[TileAxis, TileAxis], real: str, filter_real: str
) -> str:
    """The C text: the headers of both axes, in the order asked for, and the loop around them."""
    from winogen.codegen.headers import render_header
    from winogen.codegen.tile import TileContext, TileTransform

    alike = axes[0] == axes[1]
    names = ("both", "both") if alike else ("height", "width")
    headers = [
        render_header(
            algorithm, {kind: getattr(axis, kind) for kind in ("input", "filter", "output")}, name
        )
        for name, algorithm, axis in list(zip(names, algorithms, axes))[alike:]
    ]
    h, w = axes
    kinds = {
        "input": (real, real, real),
        "filter": (real, filter_real, real),
        "output": (real, real, real),
    }
    transforms = [
        TileTransform(
            kind=kind,
            in_real=into,
            real=inner,
            out_real=out,
            h_in=len(getattr(h, kind).inputs),
            h_out=len(getattr(h, kind).outputs),
            w_in=len(getattr(w, kind).inputs),
            w_out=len(getattr(w, kind).outputs),
        )
        for kind, (into, inner, out) in kinds.items()
    ]
    return TileContext(
        title=f"F({h.m} x {w.m}, {h.r} x {w.r})",
        real=real,
        filter_real=filter_real,
        headers=headers,
        h=names[0],
        w=names[1],
        transforms=transforms,
        positions=len(h.input.outputs) * len(w.input.outputs),
        taps=h.r * w.r,
        inputs=h.n * w.n,
        outputs=h.m * w.m,
    ).render()
