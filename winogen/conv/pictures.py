"""Pictures filtered by one kernel: grey or of several colours, of integers or floats."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from winogen.conv import arguments, memory, seams
from winogen.conv.clocks import in_clock_cycles
from winogen.conv.convolution import Convolution
from winogen.conv.execute import remembered
from winogen.conv.fourier import Rates
from winogen.conv.options import Options
from winogen.conv.problem import most_padding
from winogen.conv.query import Query
from winogen.conv.solvers import chosen, looked
from winogen.conv.weighted import SHAPES_KEPT
from winogen.errors import InvalidType, InvalidValue
from winogen.records import COMPUTED_TYPES, PIXEL_TYPES, Machine, Target
from winogen.toolchain import host_target
from winogen.toolchain.machine import current
from winogen.typing import Array, BorderMode, NDArray, PaddingMode

TYPES = (*PIXEL_TYPES, *COMPUTED_TYPES)
# What `conv2d` calls the borders that kernels make, by their names in numpy.pad. All others, and
# those of pictures that are smaller than their border, are made by numpy.pad.
_BY_KERNELS: dict[str, PaddingMode] = {
    "reflect": "reflect",
    "edge": "replicate",
    "wrap": "circular",
    "constant": "zeros",
}
_OF_NUMPY: dict[str, str] = {ours: theirs for theirs, ours in _BY_KERNELS.items()}
_KEPT = 64  # kernels whose packed taps are remembered
_STEPS = 4  # in Python, of a side that is filtered apart: two copies, a call, one more copy

Layout = Literal["NCHW", "NHWC"]


def filter2d(
    picture: Array,
    kernel: Array,
    *,
    mode: BorderMode = "reflect",
    convolve: bool = False,
    out: NDArray | None = None,
) -> NDArray:
    """Return a picture filtered by a kernel: as large as it was, and of its type.

    Each output is the sum of the pixels below the kernel, each times its tap: a correlation, as
    OpenCV's `filter2D` and `scipy.ndimage.correlate` compute it. Its own pixel lies below the tap
    (KH // 2, KW // 2). All colours are filtered alike.

    Arrays
    ------
    picture
        (H, W) or (H, W, C), of uint8, uint16, float32 or float64, in native byte order, with any
        strides. It is never written to.
    kernel
        (KH, KW), of finite real numbers. They are rounded to float32, for pictures of float64 to
        that. What was made of the last 64 kernels is remembered.
    out
        None, or an array for the result: C-contiguous, or a slice of the colours of such an array.
        It shares no memory with the picture.

    Options
    -------
    mode
        What lies around the picture, by the names of `numpy.pad` or of `conv2d`: "reflect", a
        mirror image without the edge itself; "symmetric", one with the edge; "edge" or "replicate",
        the nearest pixel; "wrap" or "circular", the opposite side; "constant" or "zeros".
    convolve
        Whether the kernel is turned by half a circle, as `scipy.ndimage.convolve` does.

    Returns
    -------
    An array like the picture, or ``out`` if that is given. Sums of integers are computed in float32
    and rounded to the nearest integer of their type, ties to even.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, before any work; also TypeError and ValueError.
    BuildError
        When no kernel can be compiled.
    OutOfMemory
        When an array or the workspace cannot be allocated; also MemoryError.

    >>> import numpy as np
    >>> from winogen import filter2d
    >>> picture = np.array([[0, 0, 0], [0, 90, 0], [0, 0, 0]], np.uint8)
    >>> filter2d(picture, np.full((3, 3), 1 / 9), mode="constant").tolist()
    [[10, 10, 10], [10, 10, 10], [10, 10, 10]]
    """
    x = _picture(picture)
    taps = _kernel(kernel, x.dtype)
    arguments.choice("mode", mode, get_args(BorderMode))
    if not isinstance(convolve, (bool, np.bool_)):
        raise InvalidType(f"convolve: got {convolve!r}; allowed: True or False")
    view = None if out is None else seams.plain_output(out, x.dtype, x.shape, "picture")
    layout: Layout = "NHWC"
    if x.ndim == 2:  # convolutions have an axis of channels
        layout, x, view = "NCHW", x[None], None if view is None else view[None]
    if view is not None:
        seams.writeable(view, x.shape, x.dtype, layout, {"picture": x}, "picture")
    y = _filtered(x, taps, layout, _OF_NUMPY.get(mode, mode), bool(convolve), view)
    return out if out is not None else y if layout == "NHWC" else y[0]


def _filtered(
    x: np.ndarray, taps: np.ndarray, layout: Layout, mode: str, convolve: bool, out: NDArray | None
) -> NDArray:
    """Filter a picture (1, H, W) or (H, W, C), whose arguments are all right.

    ``mode``: as numpy.pad calls it.
    """
    shape = x.shape
    if x.size == 0:
        return np.empty_like(x) if out is None else out
    height, width = (_around(count, convolve) for count in taps.shape)
    if convolve:
        taps = taps[::-1, ::-1]
    first = ("NCHW", "NHWC").index(layout) ^ 1
    sizes, border = shape[first : first + 2], _BY_KERNELS.get(mode)
    if border is None or not _reaches(border, sizes, (height, width)):
        around = [(0, 0)] * 3
        around[first : first + 2] = height, width
        x = np.pad(x, around, mode=mode)  # type: ignore[call-overload]
        border, height, width = "zeros", (0, 0), (0, 0)
    wanted = FilterKey(taps.tobytes(), taps.shape, x.dtype.name, border, height, width)
    if layout == "NHWC":
        wanted = wanted._replace(colours=shape[-1])
    y = memory.empty(shape, x.dtype, "output") if out is None else out
    rim, rows = _fastest(wanted, x.shape, host_target(), current())
    whole = wanted._replace(border="zeros") if rim else wanted
    if not rows or not y.flags.c_contiguous:
        filter_of(whole)(x, y)
        rows = False
    else:
        flat = memory.contiguous(x, "picture").reshape(1, len(x), -1)
        filter_of(whole.in_rows)(flat, y.reshape(1, len(y), -1))
    if rim:
        _overwrite_ends(x, y, wanted, 0)
    if rim or (rows and border != "zeros"):
        _overwrite_ends(x, y, wanted, 1)
    return y


def _overwrite_ends(x: np.ndarray, y: np.ndarray, wanted: FilterKey, along: int) -> None:
    """Compute the first and last rows of outputs, whose pixels lie beside the picture, too; those
    of columns ``along`` 1.
    """
    sides, axes = (wanted.height, wanted.width), ((0, 1) if wanted.colours else (1, 2))
    sources = [_padded(x.shape[axis], ends, wanted.border) for axis, ends in zip(axes, sides)]
    (before, after), reach = sides[along], wanted.shape[along] - 1
    inside = filter_of(wanted._replace(border="zeros", height=(0, 0), width=(0, 0)))
    places = before and slice(0, before), after and slice(-after, None)
    for place, read in zip(places, (slice(0, before + reach), slice(-after - reach, None))):
        if place:
            some = x.take(sources[along][read], axes[along])
            some = some.take(sources[1 - along], axes[1 - along])
            y[(*[slice(None)] * axes[along], place)] = inside(some)


@remembered(SHAPES_KEPT)
def _padded(count: int, ends: tuple[int, int], border: PaddingMode) -> np.ndarray:
    """Which of ``count`` pixels are seen, one after the other, with those of the border."""
    pixels: np.ndarray = np.pad(np.arange(count), ends, mode=_OF_NUMPY[border])  # type: ignore[call-overload]
    return pixels


class FilterKey(NamedTuple):
    """All that a filter follows from, but for the sizes of pictures."""

    taps: bytes
    shape: tuple[int, ...]
    pixels: str
    border: PaddingMode
    height: tuple[int, int]  # pixels of the border before and after it
    width: tuple[int, int]
    colours: int = 0  # of pictures (H, W, C); 0: they are (1, H, W)
    spread: int = 1  # columns from one tap to the next

    @property
    def in_rows(self) -> FilterKey:
        """The same of rows of all colours, (1, H, W * C)."""
        before, after = (pixels * self.colours for pixels in self.width)
        return self._replace(width=(before, after), spread=self.colours, colours=0)


class PixelConvolution(Convolution):
    """A convolution of arrays that may be of integers while its weights are floats.

    Outputs are rounded, ties to even, and saturated.
    """

    rank = 2

    def __init__(
        self, weight: np.ndarray, pixels: str, asked: Options, bias: np.ndarray | None = None
    ):
        super().__init__(weight, bias, asked)
        if pixels in PIXEL_TYPES:
            state = self.__getstate__() | self._retyped(pixels) | {"_dtype": np.dtype(pixels)}
            self.__setstate__(state)
            self._request = looked(self._layer, self._request, self._weight)

    def seconds(self, shape: tuple[int, ...], target: Target, machine: Machine) -> float:
        """Return how long it is predicted to take on a picture of this shape."""
        query = Query.here(self._layer.problem(shape), self._request, target, machine)
        return chosen(query).prediction.seconds


@remembered(_KEPT)
def filter_of(wanted: FilterKey) -> PixelConvolution:
    """Return what filters pictures of any size."""
    computed = "float64" if wanted.pixels == "float64" else "float32"
    kernel = np.frombuffer(wanted.taps, computed).reshape(wanted.shape)
    groups = max(1, wanted.colours)
    weight = np.broadcast_to(kernel, (groups, 1, *wanted.shape))
    asked = Options(
        padding=(wanted.height, wanted.width),
        dilation=(1, wanted.spread),
        groups=groups,
        padding_mode=wanted.border,
        layout="NHWC" if wanted.colours else "NCHW",
    )
    return PixelConvolution(weight, wanted.pixels, asked)


@remembered(SHAPES_KEPT)
def _fastest(
    wanted: FilterKey, shape: tuple[int, int, int], target: Target, machine: Machine
) -> tuple[bool, bool]:
    """Whether the outputs at the border are predicted to be filtered faster apart from all others,
    and whether a picture (H, W, C) is as rows of all colours.
    """
    clock = in_clock_cycles(machine, target).clock_ghz

    def seconds(way: tuple[bool, bool]) -> float:
        rim, rows = way
        one, size = wanted._replace(border="zeros") if rim else wanted, shape
        if rows:
            one, size = one.in_rows, (1, shape[0], shape[1] * shape[2])
        apart = 4 * rim or 2 * (rows and wanted.border != "zeros")
        steps = apart * _STEPS * Rates().call / (clock * 1e9)
        return filter_of(one).seconds(size, target, machine) + steps

    rims = (False, True) if wanted.border != "zeros" else (False,)
    colours = (False, True) if wanted.colours else (False,)
    return min(product(rims, colours), key=seconds)


def _picture(value: Any) -> np.ndarray:
    """The picture as an array; raises InvalidType and InvalidValue."""
    x = arguments.array("picture", value)
    if x.dtype.name not in TYPES or not x.dtype.isnative:
        raise InvalidType(
            f"picture: got dtype {x.dtype.str if not x.dtype.isnative else x.dtype}; allowed: "
            f"{', '.join(TYPES)}, in native byte order"
        )
    if x.ndim not in (2, 3):
        raise InvalidValue(f"picture: got shape {x.shape}; allowed: (H, W) or (H, W, C)")
    return x


def _kernel(value: Any, pixels: np.dtype) -> np.ndarray:
    """The taps in the type that is computed with; raises InvalidType and InvalidValue."""
    kernel = np.asarray(value) if isinstance(value, (list, tuple)) else value
    kernel = arguments.array("kernel", kernel)
    if kernel.dtype.kind not in "biuf":
        raise InvalidType(f"kernel: got dtype {kernel.dtype}; allowed: real numbers")
    if kernel.ndim != 2 or kernel.size == 0:
        raise InvalidValue(f"kernel: got shape {kernel.shape}; allowed: (KH, KW), of at least 1")
    with np.errstate(over="ignore"):
        taps = kernel.astype(np.float64 if pixels == np.float64 else np.float32)
    if not np.isfinite(taps).all():
        raise InvalidValue(f"kernel: got numbers that are not finite in {taps.dtype}; allowed: "
                           "finite ones")  # fmt: skip
    return taps


def _around(count: int, convolve: bool) -> tuple[int, int]:
    """How many pixels before and after an axis a kernel of so many taps reads."""
    before, after = count // 2, count - 1 - count // 2
    return (after, before) if convolve else (before, after)


def _reaches(border: str, sizes: Sequence[int], sides: Sequence[tuple[int, int]]) -> bool:
    """Whether a border can be made of pictures of these sizes in one go."""
    each = [(most_padding(border, size), max(ends)) for size, ends in zip(sizes, sides)]
    return all(most is None or wanted <= most for most, wanted in each)
