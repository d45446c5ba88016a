"""How far the outputs of one model are from those of another, over samples."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from winogen.errors import InvalidValue
from winogen.onnx.loading import session_of
from winogen.onnx.samples import Sample, run

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Difference:
    """Of one output, over all samples."""

    output: str
    psnr: float  # dB: the largest |y| of the reference against the root of the mean square error
    relative_error: float  # max |y - reference| / max |reference|

    def __str__(self) -> str:
        return (
            f"{self.output}: PSNR {self.psnr:.1f} dB, largest error {self.relative_error:.1e} of "
            "the largest output"
        )


def differences(
    reference: ModelProto, model: ModelProto, samples: Iterable[Sample]
) -> list[Difference]:
    """Return how ``model`` differs from ``reference``, both ModelProtos, output by output.

    onnxruntime runs both. Raises InvalidValue for what it refuses.
    """
    sessions = session_of(reference), session_of(model)
    names = [value.name for value in sessions[0].get_outputs()]
    if [value.name for value in sessions[1].get_outputs()] != names:
        raise InvalidValue(f"model: got other outputs; allowed: {', '.join(names)}")
    counts, squares, worst, largest = (np.zeros(len(names)) for _ in range(4))
    for number, sample in enumerate(samples):
        exact, other = (run(session, names, sample, number) for session in sessions)
        for i, (y, z) in enumerate(zip(exact, other)):
            error = np.abs(np.asarray(z, np.float64) - np.asarray(y, np.float64))
            counts[i] += error.size
            squares[i] += np.square(error).sum()
            worst[i] = max(worst[i], error.max(initial=0))
            largest[i] = max(largest[i], np.abs(y).max(initial=0))
    found = []
    for name, count, square, most, peak in zip(names, counts, squares, worst, largest):
        psnr = math.inf if square == 0 else 10 * math.log10(max(peak, 1e-300) ** 2 * count / square)
        found.append(Difference(name, psnr, float(most / peak if peak else most)))
    return found
