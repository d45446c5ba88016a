"""What ONNX's attributes say of the padding of convolutions, ordinary and transposed ones.

ONNX's rules are not PyTorch's: sides may differ, and a transposed convolution may name the size of
its output, from which its padding follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from winogen.onnx.sizes import Size


def same(auto: str, size: int, stride: int, reach: int) -> tuple[int, int]:
    """Return the padding before and after an axis that ``auto``, "SAME_UPPER" or "SAME_LOWER", is.

    ``reach``: from the first tap to the last. With a stride of 1 it is the same for all sizes.

    >>> same("SAME_UPPER", 8, 2, 2), same("SAME_LOWER", 8, 2, 2), same("SAME_UPPER", 9, 2, 2)
    ((0, 1), (1, 0), (1, 1))
    """
    last = (-(-size // stride) - 1) * stride - size + 1
    return _shared(auto, max(0, last + reach))


def is_whole(values: Mapping[str, Any], rank: int) -> bool:
    """Return whether these attributes of windows have what they need for each of ``rank`` axes."""
    counts = {"strides": rank, "dilations": rank, "output_padding": rank, "pads": 2 * rank}
    return min(values.get("strides", (1,)), default=0) > 0 and all(
        len(values[name]) == count for name, count in counts.items() if name in values
    )


class Windows(NamedTuple):
    """The windows along an axis: the padding that they see before and after it, how many."""

    before: int
    after: int
    outputs: int

    def sees_input(self, size: int, taps: int, stride: int, dilation: int) -> bool:
        """Return whether each window has a tap among the numbers of the input."""
        if dilation == 1:
            return max(self.before, self.after) < taps
        firsts = (place * stride - self.before for place in range(self.outputs))
        return all(any(0 <= one + tap * dilation < size for tap in range(taps)) for one in firsts)


def windows(values: Mapping[str, Any], axis: int, rank: int, size: int, taps: int) -> Windows:
    """Return the windows of a convolution or pool with these attributes along an axis.

    Of ``rank`` axes, with ``taps`` in each window. With `ceil_mode` the last window may reach
    beyond the padding, but none begins behind the input and the padding before it.

    >>> ceil = {"strides": [2], "ceil_mode": 1, "pads": [1, 1]}
    >>> windows(ceil, 0, 1, 7, 2), windows(ceil, 0, 1, 6, 3)
    (Windows(before=1, after=0, outputs=4), Windows(before=1, after=2, outputs=4))
    """
    auto = values.get("auto_pad", "NOTSET")
    stride = values.get("strides", (1,) * rank)[axis]
    reach = values.get("dilations", (1,) * rank)[axis] * (taps - 1)
    if auto.startswith("SAME"):
        return Windows(*same(auto, size, stride, reach), -(-size // stride))
    pads = values.get("pads", (0,) * (2 * rank)) if auto == "NOTSET" else (0,) * (2 * rank)
    before, after = pads[axis], pads[axis + rank]
    room = size + before + after - reach - 1
    if not values.get("ceil_mode", 0):
        return Windows(before, after, room // stride + 1)
    outputs = -(-room // stride) + 1
    if (outputs - 1) * stride >= size + before:
        outputs -= 1
    return Windows(before, max(0, (outputs - 1) * stride + reach + 1 - size - before), outputs)


class Ends(NamedTuple):
    """How far the full output of a transposed axis is cut, and by how much it is then longer."""

    before: int
    after: int
    more: int


def transposed(
    values: Mapping[str, Any], axis: int, rank: int, size: Size, taps: int
) -> Ends | None:
    """Return the padding of an axis of a ConvTranspose with these attributes.

    Of ``rank`` axes, with an input of ``size``. None where it depends on a size that is not known,
    and where outputs are asked for that an input more would make.

    >>> from winogen.onnx.sizes import Size
    >>> known = {"strides": [2], "auto_pad": "SAME_UPPER"}
    >>> transposed(known, 0, 1, Size("", 8), 3), transposed(known, 0, 1, Size("", 8), 4)
    (Ends(before=0, after=1, more=0), Ends(before=1, after=1, more=0))
    >>> transposed({"strides": [3], "output_shape": [10]}, 0, 1, Size("", 3), 3)
    Ends(before=0, after=0, more=1)
    """
    auto = values.get("auto_pad", "NOTSET")
    stride = values.get("strides", (1,) * rank)[axis]
    reach = values.get("dilations", (1,) * rank)[axis] * (taps - 1)
    more = values.get("output_padding", (0,) * rank)[axis]
    asked = values.get("output_shape")
    if asked:
        if not size.known:
            return None
        total = (size.number - 1) * stride + more + reach + 1 - list(asked)[-rank:][axis]
        # What is asked for beyond the last input's reach holds the bias alone.
        longer = more + max(0, -total)
        return (
            Ends(*_shared(auto, max(0, total)), longer) if longer < max(stride, 1 + more) else None
        )
    if auto in ("SAME_UPPER", "SAME_LOWER"):  # outputs are stride times the inputs
        total = more + reach + 1 - stride
        return Ends(*_shared(auto, total), more) if total >= 0 else None
    if auto == "VALID":
        return Ends(0, 0, more)
    pads = values.get("pads", (0,) * (2 * rank))
    before, after = pads[axis], pads[axis + rank]
    return Ends(before, after, more) if min(before, after) >= 0 else None


def _shared(auto: str, total: int) -> tuple[int, int]:
    """``total`` before and after an axis: the larger half behind it if ``auto`` says so."""
    less, more = total // 2, total - total // 2
    return (less, more) if auto == "SAME_UPPER" else (more, less)
