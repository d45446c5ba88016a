"""What convolution on devices is compared with: kernels that anybody would write first.

`naive_work` has a work-item for each output. `im2col_work` writes the matrix of all windows to
memory and multiplies it with the filters. `Blast` lets CLBlast multiply, or convolve with what its
own tuner found for the layer, where its library is installed. Images are NHWC, and CLBlast's own
are NCHW; there is no bias.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from winogen.codegen.devices.expressions import Expr, FunctionCall, Name, Number
from winogen.codegen.devices.statements import (
    Assign,
    Declare,
    DeviceArray,
    DeviceWork,
    ForLoop,
    Statement,
)
from winogen.conv.problem import Problem, plane_of
from winogen.kernels.work import round_up
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.direct import elementwise, moved
from winogen.opencl.lets import Lets
from winogen.opencl.maps import IndexView
from winogen.opencl.product import ProductBlock, multiply

TUNER = "clblast_tuner_xconvgemm"


def windows(problem: Problem) -> IndexView:
    """Return the windows of the padded input: N, OH, OW, KH, KW, C. A rest may be left over."""
    layer = problem.layer
    assert layer.layout == "NHWC" and layer.groups == 1 and layer.padding_mode == "zeros"
    view = IndexView.of("input", problem.batch, *plane_of(problem.size), layer.channels)
    for at, axis in ((1, layer.plane[0]), (3, layer.plane[1])):
        view = view.pad(at, axis.before, axis.after)
        view = view.slide(at, axis.reach, axis.stride).every(at + 1, axis.dilation)
    return view.transpose(0, 1, 3, 2, 4, 5)


def naive_work(problem: Problem, device: DeviceInfo) -> DeviceWork:
    """Return direct convolution with a work-item for each output, and weights as they come."""
    layer, view = problem.layer, windows(problem)
    _, high, wide, rows, columns, channels = view.sizes
    source = DeviceArray("input", problem.input_shape, "float32", "input")
    weights = DeviceArray("packed", layer.weight_shape, "float32", "packed")
    output = DeviceArray("output", problem.output_shape, "float32", "output")
    taps = IndexView.of("packed", *layer.weight_shape)

    def value(lets: Lets, indices: Sequence[Expr], to: Expr) -> tuple[list[Statement], Expr]:
        image, y, x, filter = indices
        inner = lets.inner()
        names = ("row", "column", "channel")
        row, column, channel = map(inner.loop, names, (rows, columns, channels))
        read = view.at(image, y, x, row, column, channel, bounds=inner.bounds).load
        weight = taps.at(filter, channel, row, column, bounds=inner.bounds).load
        total = Declare("total", value=Number(0.0))
        body: list[Statement] = [
            Assign(total.read, FunctionCall("fma", (read, weight, total.read)))
        ]
        for at, count in ((channel, channels), (column, columns), (row, rows)):
            if isinstance(at, Name):
                body = [ForLoop(at.name, Number(0), Number(count), Number(1), tuple(body))]
        return [total, *body], total.read

    axes = (("image", problem.batch), ("y", high), ("x", wide), ("filter", layer.filters))
    kernel = elementwise(
        "naive", "An item for each output.", (source, weights), output, axes, value, device
    )
    given = DeviceArray("weights", layer.weight_shape, "float32", "weights")
    copied = IndexView.of("weights", layer.filters, layer.weight_shape[1], rows * columns)
    pack = moved("pack_weights", "Weights as they come.", copied, given, weights, device)
    return DeviceWork((pack,), (kernel,))


def blocks(problem: Problem, device: DeviceInfo) -> list[ProductBlock]:
    """Return how the product of im2col may be cut on a device."""
    lanes = device.vector if device.vector > 1 else 4
    items = [pair for pair in ((8, 8), (4, 4), (1, 1)) if pair[0] * pair[1] <= device.group]
    every = [
        ProductBlock(rows, vectors, lanes, pair)
        for rows in (8, 4)
        for vectors in (2, 1)
        for pair in items
    ]  # fmt: skip
    return [one for one in every if problem.layer.filters % one.tile[1] == 0]


def matrix(problem: Problem, block: ProductBlock) -> tuple[DeviceArray, int]:
    """Return the matrix of all windows, with rows for whole blocks, and its columns that count."""
    count, terms = _matrix_sizes(problem)
    shape = 1, round_up(count, block.tile[0]), round_up(terms, block.lanes)
    return DeviceArray("windows", shape, "float32", "workspace"), terms


def im2col_work(problem: Problem, device: DeviceInfo, block: ProductBlock) -> DeviceWork:
    """Return the kernels of im2col: windows written as rows, times the filters.

    The output has rows for whole blocks; the first ones are the layer's.
    """
    layer = problem.layer
    rows, terms = matrix(problem, block)
    count, _ = _matrix_sizes(problem)
    source = DeviceArray("input", problem.input_shape, "float32", "input")
    weights = DeviceArray("weights", layer.weight_shape, "float32", "weights")
    packed = DeviceArray("packed", (1, terms, layer.filters), "float32", "packed")
    output = DeviceArray("output", (1, rows.shape[1], layer.filters), "float32", "output")
    view = windows(problem).join(0).join(0).join(1).join(1)
    view = view.pad(0, 0, rows.shape[1] - count).pad(1, 0, rows.shape[2] - terms)
    taps = IndexView.of("weights", *layer.weight_shape).transpose(2, 3, 1, 0).join(0).join(0)
    return DeviceWork(
        (moved("pack_weights", "A row for each tap and channel.", taps, weights, packed, device),),
        (
            moved("write_windows", "A row for each output.", view, source, rows, device),
            multiply("multiply", "Windows times filters.", rows, packed, output, terms, block),
        ),
    )


def _matrix_sizes(problem: Problem) -> tuple[int, int]:
    count, high, wide, *window = windows(problem).sizes
    return count * high * wide, window[0] * window[1] * window[2]


class Blast:
    """CLBlast's product of matrices, by its interface in C."""

    def __init__(self) -> None:
        """Load the library; raises OSError where there is none."""
        self._library = ctypes.CDLL("libclblast.so.1")

    def __call__(
        self, queue: Any, sizes: tuple[int, int, int], buffers: tuple[Any, Any, Any], depth: int
    ) -> Any:
        """Multiply (rows, terms) by (terms, columns); returns the event.

        ``sizes``: rows, columns, terms. ``depth``: from a row of the first matrix to the next.
        """
        import pyopencl as cl

        rows, columns, terms = sizes
        a, b, c = (ctypes.c_void_p(one.int_ptr) for one in buffers)
        event, on = ctypes.c_void_p(), ctypes.c_void_p(queue.int_ptr)
        size, row_major, plain = ctypes.c_size_t, 101, 111
        status = self._library.CLBlastSgemm(
            row_major, plain, plain, size(rows), size(columns), size(terms), ctypes.c_float(1),
            a, size(0), size(depth), b, size(0), size(columns), ctypes.c_float(0),
            c, size(0), size(columns), ctypes.byref(on), ctypes.byref(event),
        )  # fmt: skip
        if status:
            raise RuntimeError(f"CLBlast: status {status}")
        return cl.Event.from_int_ptr(event.value, retain=False)

    def convolve(self, queue: Any, problem: Problem, buffers: tuple[Any, Any, Any]) -> None:
        """Convolve an NCHW image of a layer of groups 1, by CLBlast's kernel for that."""
        layer, cross_correlation = problem.layer, 151
        axes = layer.plane
        numbers = (
            layer.channels, *problem.size,
            *(getattr(axis, name) for name in ("kernel", "before", "stride", "dilation")
              for axis in axes),
            layer.filters, problem.batch,
        )  # fmt: skip
        arrays = [x for one in buffers for x in (ctypes.c_void_p(one.int_ptr), ctypes.c_size_t(0))]
        on = ctypes.c_void_p(queue.int_ptr)
        status = self._library.CLBlastSconvgemm(
            cross_correlation, *map(ctypes.c_size_t, numbers), *arrays, ctypes.byref(on), None
        )
        if status:
            raise RuntimeError(f"CLBlast: status {status}")

    def tune(self, device: Any, problem: Problem) -> None:
        """Let CLBlast's tuner, `TUNER`, search for the layer, and take what it found."""
        layer = problem.layer
        sizes = {
            "channels": layer.channels, "height": problem.size[0], "width": problem.size[1],
            "kernelh": layer.plane[0].kernel, "kernelw": layer.plane[1].kernel,
            "num_kernels": layer.filters, "batch_num": problem.batch,
        }  # fmt: skip
        words = [word for name, size in sizes.items() for word in (f"-{name}", str(size))]
        with TemporaryDirectory() as folder:
            subprocess.run([TUNER, *words], cwd=folder, check=True, capture_output=True)
            (found,) = Path(folder).glob("*.json")
            self._override(device, json.loads(found.read_text("utf-8")))

    def _override(self, device: Any, tuned: Mapping[str, str]) -> None:
        pairs = [pair.split("=") for pair in tuned["best_parameters"].split()]
        pairs = [pair for pair in pairs if pair[0] != "PRECISION"]
        names = (ctypes.c_char_p * len(pairs))(*(name.encode() for name, _ in pairs))
        values = (ctypes.c_size_t * len(pairs))(*(int(value) for _, value in pairs))
        status = self._library.CLBlastOverrideParameters(
            ctypes.c_void_p(device.int_ptr), b"Xconvgemm", int(tuned["precision"]),
            ctypes.c_size_t(len(pairs)), names, values,
        )  # fmt: skip
        if status:
            raise RuntimeError(f"CLBlast refuses what its tuner found: status {status}")
