"""What the variants for depthwise layers have in common."""

from __future__ import annotations

from dataclasses import replace

from winogen.kernels.work import Work

USUAL = (3, 5)  # sizes of square kernels that have micro-kernels of their own


def is_usual(work: Work, axis: int) -> bool:
    """Whether a kernel and its stride along ``axis`` have a micro-kernel of their own."""
    square = work.kernel[0] == work.kernel[1] and work.kernel[0] in USUAL
    return square and work.dilation == (1, 1) and work.stride[axis] <= 2


def as_one_group(work: Work) -> Work:
    """Return the layer seen as one group, whose strip holds all channels side by side."""
    return replace(work, groups=1, channels=work.groups, filters=work.groups)
