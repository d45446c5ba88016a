"""What compressing a model did: layer by layer, and in sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from winogen.columns import aligned


@dataclass(frozen=True)
class Row:
    """One convolution; without a rank it is as it was."""

    name: str
    shape: tuple[int, ...]  # of its weights
    exact: str  # the algorithm that is fastest for it as it was, as predicted
    tile: tuple[int, ...] | None  # ... and its tile
    products_before: float
    seconds_before: float  # predicted, by that algorithm
    parameters_before: int
    full_rank: int | None = None
    rank: int | None = None
    first: str | None = None  # which taps stage 1 has
    residual: float | None = None  # of the decomposition, weighted by what the layer gets
    error: float | None = None  # of its outputs on the samples, relative to them
    products: float | None = None
    seconds: float | None = None  # predicted, of both stages
    parameters: int | None = None
    measured: float | None = None  # seconds of both stages, the median of many calls
    measured_before: float | None = None  # ... of the layer as it was, in turns with them
    note: str = ""

    def cells(self) -> list[str]:
        """Return what the table has of it."""
        tile = f" {'x'.join(map(str, self.tile))}" if self.tile else ""
        before = f"{1e3 * self.seconds_before:.3g} ms {self.exact}{tile}"
        name, shape = self.name, "x".join(map(str, self.shape))
        if self.rank is None or self.products is None or self.seconds is None:
            return [name, shape, "", "", "", "", before, "", "", self.note]
        return [
            name,
            shape,
            f"{self.rank} of {self.full_rank}",
            f"{self.residual:.3f}",
            f"{self.error:.3f}",
            f"{self.products_before / self.products:.2f}x",
            before,
            f"{1e3 * self.seconds:.3g} ms",
            self._measured,
            self.note,
        ]

    @property
    def _measured(self) -> str:
        if self.measured is None or self.measured_before is None:
            return ""
        return f"{1e3 * self.measured_before:.3g}, {1e3 * self.measured:.3g} ms"


_HEAD = (
    "layer", "weights", "rank", "residual", "error", "products", "as it was", "two stages",
    "measured, both", "",
)  # fmt: skip


@dataclass(frozen=True)
class Report:
    """How a model was compressed; ``print(report)`` shows it."""

    budget: str
    rows: Sequence[Row]
    psnr: float  # dB on samples held out; the peak is the largest output of the original
    held_out: int  # how many samples that were

    def total(self, what: str) -> tuple[float, float]:
        """Return a sum over all convolutions, before and after: products, seconds, parameters."""
        before = [getattr(row, f"{what}_before") for row in self.rows]
        after = [getattr(row, what) for row in self.rows]
        return sum(before), sum(b if a is None else a for b, a in zip(before, after))

    def to_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        totals = {what: self.total(what) for what in ("products", "seconds", "parameters")}
        return {**asdict(self), "rows": [asdict(row) for row in self.rows], "totals": totals}

    def __str__(self) -> str:
        lines = aligned(self._cells())
        factorised = sum(row.rank is not None for row in self.rows)
        seconds, products, parameters = (
            self.total(what) for what in ("seconds", "products", "parameters")
        )
        lines += [
            "",
            f"budget {self.budget}: {factorised} of {len(self.rows)} convolutions are two",
            f"predicted time of the convolutions: {1e3 * seconds[1]:.3g} ms, for "
            f"{1e3 * seconds[0]:.3g} ms by exact algorithms ({seconds[0] / seconds[1]:.2f}x)",
            f"products {products[0] / products[1]:.2f}x fewer than direct, weights "
            f"{parameters[0] / parameters[1]:.2f}x fewer",
            f"PSNR {self.psnr:.1f} dB on {self.held_out} inputs held out",
        ]
        timed = [row for row in self.rows if row.measured is not None]
        if timed:
            before, after = (
                sum(getattr(row, name) for row in timed) for name in ("measured_before", "measured")
            )
            lines.insert(
                -2,
                f"measured time of those that are two: {1e3 * after:.3g} ms, for "
                f"{1e3 * before:.3g} ms by exact algorithms ({before / after:.2f}x)",
            )
        if seconds[1] >= seconds[0]:
            lines.append("not worth it: nothing is predicted to be faster than it was")
        return "\n".join(lines)

    def _cells(self) -> list[list[str]]:
        """What the table has, without a column of times that were not measured."""
        cells = [list(_HEAD), *(row.cells() for row in self.rows)]
        if all(row.measured is None for row in self.rows):
            place = _HEAD.index("measured, both")
            for row in cells:
                del row[place]
        return cells
