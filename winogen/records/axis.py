"""What a convolution does along one axis, and how an array lies in memory."""

from __future__ import annotations

from dataclasses import dataclass

AXES = ("depth", "height", "width")  # of layers of three axes; those of fewer have the last


@dataclass(frozen=True)
class Axis:
    """One axis of a layer, in numbers: the kernel's taps, their spread, and the padding.

    >>> axis = Axis(kernel=3, stride=2, before=1, after=1)
    >>> axis.reach, axis.outputs(8)
    (3, 4)
    """

    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0  # padding at the top or left
    after: int = 0  # padding at the bottom or right

    @property
    def reach(self) -> int:
        """Inputs that one output spans."""
        return self.dilation * (self.kernel - 1) + 1

    def padded(self, size: int) -> int:
        """The size of the padded input."""
        return self.before + size + self.after

    def inside(self, size: int, outputs: int) -> range:
        """Return the taps between the first and the last that read the input for some output.

        All others read zeros only, if it is padded with zeros. Of taps that all do, one is
        returned.

        >>> Axis(kernel=3, dilation=24, before=24, after=24).inside(14, 14)
        range(1, 2)
        """
        last = (outputs - 1) * self.stride - self.before
        taps = [
            tap
            for tap in range(self.kernel)
            if tap * self.dilation - self.before < size and tap * self.dilation + last >= 0
        ]
        return range(taps[0], taps[-1] + 1) if taps else range(1)

    def outputs(self, size: int) -> int:
        """How many outputs an input of this size has; not positive if the kernel does not fit."""
        return (self.padded(size) - self.reach) // self.stride + 1


@dataclass(frozen=True)
class Strides:
    """From one image, row, pixel and channel of an array to the next, in numbers.

    An array of volumes has ``planes`` of each, each with a ``plane`` of its own.
    """

    image: int
    row: int
    pixel: int
    channel: int
    plane: int = 0
    planes: int = 1

    @classmethod
    def of(cls, layout: str, channels: int, height: int, width: int, planes: int = 1) -> Strides:
        """Return the strides of a contiguous array, or of a slice of the ``channels`` of one.

        >>> Strides.of("NCHW", 3, 4, 5)
        Strides(image=60, row=5, pixel=1, channel=20, plane=20, planes=1)
        """
        area = height * width
        image = channels * area * planes
        if layout == "NCHW":
            return cls(image, width, 1, area * planes, area, planes)
        return cls(image, width * channels, channels, 1, area * channels, planes)

    def extent(self, images: int, height: int, width: int, channels: int) -> int:
        """From the first number of an array of this size to behind its last; 0 if it is empty.

        >>> Strides.of("NHWC", 8, 4, 5).extent(2, 4, 5, 3)  # the first 3 of 8 channels
        315
        """
        sizes = (images, height, width, channels)
        if 0 in sizes:
            return 0
        steps = (self.image, self.row, self.pixel, self.channel)
        last = sum((size - 1) * step for size, step in zip(sizes, steps))
        return 1 + last + (self.planes - 1) * self.plane
