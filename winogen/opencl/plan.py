"""What a convolution on a device will do, and what it takes there, for people to read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeVar

from winogen.conv.plan import Prediction
from winogen.conv.problem import Problem
from winogen.conv.transposed_problem import TransposedProblem
from winogen.opencl.choice import DeviceCandidate
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.running import CompiledWork

T = TypeVar("T")


class Launch(NamedTuple):
    """How a kernel is launched."""

    kernel: str
    items: tuple[int, int, int]  # along each axis
    group: tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class DevicePlan:
    """How one problem is computed on a device; ``print(plan)`` shows it."""

    operation: str  # "conv" or "conv_transpose"
    input_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: str
    layout: str
    algorithm: str  # what runs: "direct" or "mcmr", never "auto"
    tile: tuple[int, ...] | None  # outputs of one Winograd tile, along each axis
    taps: tuple[int, ...]  # of what is computed: of a phase, if the layer is transposed
    points: tuple[tuple[str, ...] | None, ...] | None  # along each axis; None: no tiles
    moduli: tuple[tuple[str, ...] | None, ...] | None  # polynomials, where they replace the points
    parameters: dict[str, Any]  # how kernels are cut
    measured: bool  # whether `winogen tune` found them; else they were predicted to be fastest
    device: str
    driver: str
    launches: tuple[Launch, ...]
    # Bytes of every array by name: those of the call, packed weights, and the workspace.
    buffers: dict[str, int]
    workspace_bytes: int
    packed_weight_bytes: int
    multiplications: int  # element-wise, of the whole call, tile waste included
    direct_multiplications: int  # of the definition, to compare with
    predicted_error: float  # expected max |y - y_exact| / max |y_exact| on normal data
    predictions: tuple[Prediction, ...] = field(repr=False)  # the first is what runs
    source: str = field(repr=False)  # the OpenCL C of all kernels

    @classmethod
    def of(
        cls,
        asked: Problem | TransposedProblem,
        problem: Problem,
        ranked: list[DeviceCandidate],
        running: CompiledWork,
        device: DeviceInfo,
    ) -> DevicePlan:
        """Return the plan of what is asked, by a problem whose kernels are compiled."""
        layer, best, work = problem.layer, ranked[0], running.work
        layout = str(asked.shapes["layout"])

        def along(values: tuple[T, ...]) -> tuple[T, ...]:
            """What is of the layer's own axes: signals are rows of planes."""
            return values[2 - len(layout) :]

        sets: dict[str, Any] = {"points": None, "moduli": None}
        if best.transforms is not None:
            used = along(best.transforms)
            sets = {name: tuple(getattr(t, name) or None for t in used) for name in sets}
        arrays = [one for one in work.arrays if one.role != "weights"]
        return cls(
            operation="conv" if isinstance(asked, Problem) else "conv_transpose",
            input_shape=asked.input_shape,
            weight_shape=asked.layer.weight_shape,
            output_shape=asked.output_shape,
            dtype=layer.dtype,
            layout=layout,
            algorithm=best.algorithm,
            tile=best.tile and along(best.tile),
            taps=along(layer.kernel),
            **sets,
            parameters=asdict(best.parameters),
            measured=best.measured,
            device=device.name,
            driver=device.driver,
            launches=tuple(Launch(one.name, one.items, one.group) for one in work.kernels),
            buffers={one.name: one.nbytes for one in arrays},
            workspace_bytes=work.workspace_bytes,
            packed_weight_bytes=sum(one.nbytes for one in arrays if one.role == "packed"),
            multiplications=best.multiplications,
            direct_multiplications=asked.direct_multiplications,
            predicted_error=best.error or 0.0,
            predictions=tuple(
                Prediction(
                    one.seconds,
                    one.error or 0.0,
                    one.algorithm,
                    one.tile and along(one.tile),
                    one.tag,
                )
                for one in ranked
            ),
            source=running.source,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all but the source as what JSON can hold."""
        kept = {name: value for name, value in asdict(self).items() if name != "source"}
        return {
            **kept,
            "launches": [one._asdict() for one in self.launches],
            "predictions": [one._asdict() for one in self.predictions],
        }

    def __str__(self) -> str:
        times = self.direct_multiplications / max(1, self.multiplications)
        cut = ", ".join(f"{name} {_text(value)}" for name, value in self.parameters.items())
        gained = f" ({times:.2f}x fewer than direct)" if self.tile else ""
        rows = [
            ("algorithm", self._named(self.algorithm, self.tile)),
            *self._points(),
            ("cut", cut + ("; measured" if self.measured else "")),
            ("device", f"{self.device} ({self.driver})"),
            ("multiplications", f"{self.multiplications:,}{gained}"),
        ]
        rows += zip(("buffers", *[""] * len(self.buffers)), self._buffers())
        rows += zip(("launches", *[""] * len(self.launches)), self._launches())
        rows += zip(("predicted", *[""] * len(self.predictions)), self._alternatives())
        shapes = (self.input_shape, self.weight_shape, self.output_shape)
        head = "{} * {} -> {}".format(*("x".join(map(str, shape)) for shape in shapes))
        rank = len(self.layout) - 2
        lines = [f"{self.operation}{rank}d {self.dtype} {self.layout} on OpenCL: {head}"]
        return "\n".join(lines + [f"  {name:<16} {text}" for name, text in rows])

    def _named(self, algorithm: str, tile: tuple[int, ...] | None) -> str:
        if tile is None:
            return algorithm
        return f"{algorithm} F({'x'.join(map(str, tile))},{'x'.join(map(str, self.taps))})"

    def _points(self) -> list[tuple[str, str]]:
        rows = []
        for name, sets in (("points", self.points or ()), ("moduli", self.moduli or ())):
            texts = [", ".join(one) for one in dict.fromkeys(sets) if one]
            rows += [(name, text) for text in texts]
        return rows

    def _buffers(self) -> list[str]:
        return [f"{name} {size:,} bytes" for name, size in self.buffers.items()]

    def _launches(self) -> list[str]:
        return [
            f"{one.kernel}: {_text(one.items)} work-items in groups of {_text(one.group)}"
            for one in self.launches
        ]

    def _alternatives(self) -> list[str]:
        return [
            f"{1e3 * p.seconds:.3g} ms, error {p.error:.1e}: "
            f"{self._named(p.algorithm, p.tile)} {p.tag}".rstrip()
            for p in self.predictions
        ]


def _text(value: Any) -> str:
    return " x ".join(map(str, value)) if isinstance(value, tuple) else str(value)
