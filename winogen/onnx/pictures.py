"""Folders of pictures as samples of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.extras import require
from winogen.files import check_input

_SUFFIXES = (".png", ".jpg", ".jpeg")
_NEEDED = "size, mean and std, as --size 224x224 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225"
_MODES = {1: "L", 3: "RGB"}  # of pillow, by channels


@dataclass(frozen=True)
class Pictures:
    """How pictures become inputs: (pixel - mean) / std for pixels from 0 to 1.

    >>> Pictures.of("8x6", "0.5", "0.25")
    Pictures(size=(8, 6), mean=(0.5,), std=(0.25,))
    """

    size: tuple[int, int]  # height and width
    mean: tuple[float, ...]  # of red, green and blue, or of grey
    std: tuple[float, ...]

    @classmethod
    def of(cls, size: str | None, mean: str | None, std: str | None) -> Pictures | None:
        """Return what texts ask for, None if there are none; raises InvalidValue."""
        given = {"size": size, "mean": mean, "std": std}
        missing = [name for name, text in given.items() if text is None]
        if len(missing) == len(given):
            return None
        if size is None or mean is None or std is None:
            raise InvalidValue(f"{missing[0]}: got none; allowed: for pictures {_NEEDED}")
        found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", size, re.ASCII)
        if not found:
            raise InvalidValue(f"size: got {size!r}; allowed: height and width, as 224x224")
        numbers = {name: _numbers(name, text) for name, text in (("mean", mean), ("std", std))}
        if len(numbers["std"]) != len(numbers["mean"]):
            raise InvalidValue(f"std: got {std!r}; allowed: as many numbers as the mean {mean!r}")
        if min(numbers["std"]) <= 0:
            raise InvalidValue(f"std: got {std!r}; allowed: positive numbers")
        return cls((int(found[1]), int(found[2])), numbers["mean"], numbers["std"])

    def read(self, path: Path) -> np.ndarray:
        """Return a picture as (1, C, H, W), float32: scaled to cover that size, its middle cut out.

        Raises InvalidValue for what is no picture, MissingPackage and OSError.
        """
        image, operations = (require(f"PIL.{name}", "plot") for name in ("Image", "ImageOps"))
        height, width = self.size
        check_input("data", path, "a picture")
        try:
            with image.open(path) as file:
                whole = file.convert(_MODES[len(self.mean)])
                pixels = np.asarray(operations.fit(whole, (width, height)), np.float32)
        except Exception as problem:  # of many kinds
            raise InvalidValue(f"data: got {path}, which is no picture ({problem})") from problem
        scaled = pixels.reshape(height, width, -1) / np.float32(255)
        normal = (scaled - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return np.ascontiguousarray(normal.transpose(2, 0, 1)[None])


def in_folder(folder: Path) -> list[Path]:
    """Return the pictures in a folder, by their names."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)


def samples_of(
    files: Sequence[Path], pictures: Pictures | None, inputs: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Return pictures as samples of a model with one input; raises InvalidValue at once."""
    if pictures is None:
        raise InvalidValue(f"size, mean, std: got none of them; allowed: for pictures {_NEEDED}")
    if len(inputs) != 1:
        raise InvalidValue(
            f"data: got pictures; allowed: arrays, for a model with the inputs {', '.join(inputs)}"
        )
    return ({inputs[0]: pictures.read(file)} for file in files)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    """One number or three."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) not in _MODES or not np.isfinite(numbers).all():
        raise InvalidValue(
            f"{name}: got {text!r}; allowed: a number for each channel, as 0.5,0.5,0.5, or one for "
            "grey pictures"
        )
    return numbers
