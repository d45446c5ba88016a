"""A photograph for demonstrations and benchmarks: real pictures are smooth, noise is not."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from winogen.errors import WinogenError
from winogen.extras import MissingPackage, require


def photograph() -> np.ndarray:
    """Return Grace Hopper's portrait from matplotlib's sample data: (3, 600, 512), float32, 0..1.

    Raises MissingPackage without matplotlib, and WinogenError when it came without its sample data.
    """
    image, cbook = (require(f"matplotlib.{name}", "plot") for name in ("image", "cbook"))
    try:
        file = cast(BinaryIO, cbook.get_sample_data("grace_hopper.jpg"))
        with file:
            pixels = image.imread(file, format="jpg")
    except OSError as problem:
        raise WinogenError(
            f"matplotlib's sample photograph is missing ({problem}); pip install matplotlib has it"
        ) from None
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32) / np.float32(255)


def photograph_or_drawing() -> np.ndarray:
    """Return the portrait, or without matplotlib a drawing of rings and stripes as large."""
    try:
        return photograph()
    except MissingPackage:
        x, y = np.meshgrid(np.linspace(-1, 1, 512), np.linspace(-1, 1, 600))
        rings = np.sin(40 * np.hypot(x, y)) > 0
        return np.stack([rings, (6 * x + 4 * y) % 1, (y + 1) / 2]).astype(np.float32)


def opened(path: str | Path) -> np.ndarray:
    """Return a picture of any format as (3, H, W), float32 between 0 and 1; raises MissingPackage.

    It takes the package that matplotlib reads pictures by.
    """
    image = require("PIL.Image", "plot").open(path).convert("RGB")
    return np.ascontiguousarray(np.asarray(image, np.float32).transpose(2, 0, 1)) / 255


def write_png(path: str | Path, pixels: np.ndarray) -> None:
    """Write pixels of (H, W, 3), uint8, without any package for pictures."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    height, width, _ = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits of red, green and blue
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # 0: no filter
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b"")
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
