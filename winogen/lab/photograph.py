"""A photograph for demonstrations and benchmarks: real pictures are smooth, noise is not."""

from __future__ import annotations

from typing import BinaryIO, cast

import numpy as np

from winogen.errors import WinogenError
from winogen.extras import require


def photograph() -> np.ndarray:
    """Return Grace Hopper's portrait from matplotlib's sample data: (3, 600, 512), float32, 0..1.

    Raises MissingPackage without matplotlib, and WinogenError when it came without its sample data.
    """
    image, cbook = (require(f"matplotlib.{name}", "lab") for name in ("image", "cbook"))
    try:
        file = cast(BinaryIO, cbook.get_sample_data("grace_hopper.jpg"))
        with file:
            pixels = image.imread(file, format="jpg")
    except OSError as problem:
        raise WinogenError(
            f"matplotlib's sample photograph is missing ({problem}); pip install matplotlib has it"
        ) from None
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32) / np.float32(255)
