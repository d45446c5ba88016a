"""Bytes and times of convolution on devices beside what others do, as the source has them.

python scripts/opencl_figures.py                        # bytes, by formula: no device is needed
python scripts/opencl_figures.py --points               # counts all valid points: some minutes
python scripts/opencl_figures.py --device [--seconds 60] [--layers 7,9] [--results FILE]
                                 [--measured FILE] [--tune-clblast]

The first prints what a point of the source's Table 4 takes, and what runs here untuned, the
largest layers of networks (its Fig. 2), and the nine layers of VGG-16 (its Fig. 5). With
``--points`` see `opencl_points.py`. With ``--device`` each of these layers is searched for so many
seconds, and timed beside a kernel with an item for each output, beside im2col with a product of
ours and, where the library is installed, with CLBlast's, beside CLBlast's own convolution (with
``--tune-clblast`` after its tuner), and on a CPU beside our C kernels. The choices by time and
memory are listed (its Fig. 6). A search that was stopped goes on where ``--measured`` keeps its
points.

The source: Mogers and others, "Automatic generation of specialized direct convolutions for mobile
GPUs", GPGPU 2020.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from math import prod
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any, Literal

import numpy as np
from opencl_baselines import TUNER, Blast, blocks, im2col_work, matrix, naive_work
from opencl_points import multiplications, show_points

from winogen.codegen.devices.statements import DeviceWork
from winogen.conv.problem import Problem
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.direct import direct_work
from winogen.opencl.scheme import DirectPoint
from winogen.opencl.search import results_at
from winogen.opencl.space import DirectSpace
from winogen.opencl.usual import usual
from winogen.tasks.results import Results
from winogen.tuning.layers import BenchLayer, load_layers

NETS = (
    "vgg16",
    "googlenet",
    "resnet50",
    "inception-v3",
    "densenet121",
    "squeezenet",
    "mobilenet-v2",
)
# Of the source's Table 4: parameters of layer 7 of VGG-16, and what its partial sums take.
TABLE_4 = DirectPoint(
    5, 5, 11, 11, filters=4, windows=3, vector=4, chunk=36, local_chunks=8, local_windows=3,
    pad=1, crop=1,
)  # fmt: skip
_REPEATS = 5
# The columns of the table with ``--device``, and what they are called in results.
_COLUMNS = {
    "naive": "naive", "im2col": "im2col", "CLBlast": "clblast", "convgemm": "convgemm",
    "direct": "direct", "Winograd": "winograd", "C direct": "c direct", "C mcmr": "c mcmr",
}  # fmt: skip
_ROOMY = DeviceInfo(
    group=1024, items=(1024, 1024, 64), largest_buffer=1 << 33, memory_bytes=1 << 36
)


def direct_bytes(layer: BenchLayer) -> int:
    """Return the bytes of direct convolution: input, weights and output."""
    return 4 * (prod(layer.input) + prod(layer.weight) + prod(layer.output))


def im2col_bytes(layer: BenchLayer) -> int:
    """Return the bytes of im2col: these and the matrix of all windows."""
    outputs = prod(layer.output) // layer.filters
    return direct_bytes(layer) + 4 * outputs * prod(layer.weight[1:]) * layer.groups


def vgg() -> tuple[BenchLayer, ...]:
    """Return the nine different layers of VGG-16."""
    return load_layers("vgg16")


def table_4() -> dict[str, int]:
    """Return bytes of the point of the source, and with no more rows of zeros than tiles need."""
    layer = layer_7()
    fewer = DirectPoint(**{**TABLE_4.as_values(), "extra_height": 2, "extra_width": 2})
    partial = {
        name: next(a for a in direct_work(layer.problem("NHWC"), point, _ROOMY).arrays
                   if a.name == "partial")
        for name, point in (("as printed", TABLE_4), ("with ρ = 2", fewer))
    }  # fmt: skip
    return {name: array.nbytes for name, array in partial.items()}


def layer_7() -> BenchLayer:
    """Return what the source calls layer 7 of VGG-16."""
    return next(one for one in vgg() if one.input[1:] == (128, 112, 112))


def workspaces() -> dict[str, tuple[DirectPoint, int, int]]:
    """Return points of layer 7, what their workspace takes, and how often they multiply.

    These are the source's, and the first of those that are tried where nothing was measured: of
    whole windows, and of windows in chunks.
    """
    space = DirectSpace(layer_7().problem("NHWC"), _ROOMY)
    usually = usual(space, 16)
    points = {
        "of the source": TABLE_4,
        "whole windows": usually[0],
        "in chunks": next(one for one in usually if one.chunk < usually[0].chunk),
    }
    return {
        name: (one, space.workspace_of(one), multiplications(space, one))
        for name, one in points.items()
    }


def largest_layers() -> Iterator[tuple[str, BenchLayer]]:
    """Yield the layer of each net whose im2col takes most bytes."""
    for net in NETS:
        yield net, max(load_layers(net), key=im2col_bytes)


def show_bytes() -> None:
    """Print all figures that follow from sizes."""
    print(
        "Partial sums of layer 7 of VGG-16, θ 5, κ 4, σ 3, ω 144, v 4 (Table 4: 61,968,384 bytes)"
    )
    for name, count in table_4().items():
        print(f"  {name:<12} {count:>12,} bytes")
    print("\nThe workspace of that layer, and its multiplications")
    for name, (point, size, work) in workspaces().items():
        print(f"  {name:<14} {size:>12,} bytes {work:>15,}  {point}")
    print("\nThe largest layers of networks (Fig. 2), in MB")
    print(f"  {'net':<14} {'layer':<40} {'direct':>8} {'im2col':>8} {'ratio':>6}")
    for net, layer in largest_layers():
        print(f"  {net:<14} {layer.name:<40} {_megabytes(layer)}")
    print("\nThe layers of VGG-16 (Fig. 5), in MB")
    for layer in vgg():
        print(f"  {'':<14} {layer.name:<40} {_megabytes(layer)}")
    ratios = [im2col_bytes(layer) / direct_bytes(layer) for layer in vgg()]
    print(f"  {'mean of ratios':<72} {fmean(ratios):>6.2f}")


def _megabytes(layer: BenchLayer) -> str:
    direct, im2col = direct_bytes(layer), im2col_bytes(layer)
    return f"{1e-6 * direct:>8.2f} {1e-6 * im2col:>8.2f} {im2col / direct:>6.2f}"


def normal(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return an input and weights of normal numbers, always the same."""
    generator = np.random.default_rng(0)
    shapes = problem.input_shape, problem.layer.weight_shape
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in shapes)
    return x, w


def least(call: Callable[[], object], repeats: int) -> float:
    """Return the seconds of the fastest of some calls."""
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        call()
        times.append(perf_counter() - begin)
    return min(times)


class Rivals:
    """Times of the baselines on a device; a result that is wrong raises."""

    def __init__(self, context: Any, tunes_blast: bool = False):
        import pyopencl as cl

        self.context, self.tunes_blast = context, tunes_blast
        self.device = DeviceInfo.of(context.devices[0])
        self._queue = cl.CommandQueue(
            context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        try:
            self._blast: Blast | None = Blast()
        except OSError:
            self._blast = None

    def times(self, layer: BenchLayer) -> dict[str, Any]:
        """Return name -> seconds of a layer, and the bytes of im2col's workspace."""
        problem = layer.problem("NHWC")
        found: dict[str, Any] = {}
        found["naive"], _ = self._timed(problem, naive_work(problem, self.device))
        for block in blocks(problem, self.device):
            seconds, buffers = self._timed(problem, im2col_work(problem, self.device, block))
            if seconds < found.get("im2col", float("inf")):
                found["im2col"] = seconds
                found["im2col_bytes"] = matrix(problem, block)[0].nbytes
            if self._blast is not None:
                windows, terms = matrix(problem, block)
                multiplied = self._blasted(self._blast, problem, buffers, windows.shape, terms)
                wrote = buffers["write_windows"]
                found["clblast"] = min(found.get("clblast", float("inf")), wrote + multiplied)
        if self._blast is not None:
            if self.tunes_blast:
                self._blast.tune(self.context.devices[0], problem)
            found["convgemm"] = self._convolved(self._blast, layer.problem("NCHW"))
        return found

    def _convolved(self, blast: Blast, problem: Problem) -> float:
        """Seconds of CLBlast's own convolution, until it is done."""
        import pyopencl as cl
        import pyopencl.array

        from winogen.opencl.measuring import sampled

        x, w = normal(problem)
        y = np.full(problem.output_shape, np.nan, np.float32)
        arrays = [cl.array.to_device(self._queue, one) for one in (x, w, y)]
        given = arrays[0].data, arrays[1].data, arrays[2].data
        seconds = self._least(lambda: blast.convolve(self._queue, problem, given))
        places, wanted = sampled(problem, x, w)
        if not np.allclose(arrays[2].get().reshape(-1)[places], wanted, atol=1e-2):
            raise RuntimeError("CLBlast's convolution is wrong")
        return seconds

    def _least(self, call: Callable[[], object]) -> float:
        """Seconds of the fastest of some calls, each until all is done."""
        self._queue.finish()
        return least(lambda: (call(), self._queue.finish()), _REPEATS)

    def _timed(self, problem: Problem, work: DeviceWork) -> tuple[float, Mapping[str, Any]]:
        """Seconds of all kernels, and the buffers; of each kernel by its name beside them."""
        import pyopencl as cl

        from winogen.opencl import running
        from winogen.opencl.measuring import sampled

        x, w = normal(problem)
        compiled = running.CompiledWork(work, self.context)
        arrays = {one.name: one for one in work.arrays}
        buffers = compiled.pack(self._queue, w) | compiled.workspace()
        buffers["input"] = running.upload(self.context, arrays["input"], x)
        y = np.full(arrays["output"].shape, np.nan, np.float32)
        buffers["output"] = running.upload(self.context, arrays["output"], y)
        calls = [running.seconds(compiled.run(self._queue, buffers)) for _ in range(_REPEATS)]
        cl.enqueue_copy(self._queue, y, buffers["output"])
        self._queue.finish()
        places, wanted = sampled(problem, x, w)
        if not np.allclose(y.reshape(-1)[places], wanted, atol=1e-2):
            raise RuntimeError(f"{work.kernels[-1].name} is wrong")
        names = [kernel.name for kernel in work.kernels]
        return min(map(sum, calls)), buffers | dict(zip(names, map(min, zip(*calls))))

    def _blasted(
        self,
        blast: Blast,
        problem: Problem,
        buffers: Mapping[str, Any],
        shape: tuple[int, ...],
        terms: int,
    ) -> float:
        """Seconds of CLBlast's product of the same windows and filters, until it is done.

        It launches several kernels, and its event is of the last one alone.
        """
        import pyopencl as cl

        sizes = shape[1], problem.layer.filters, terms
        given = buffers["windows"], buffers["packed"], buffers["output"]
        before, after = (np.empty((shape[1], problem.layer.filters), np.float32) for _ in range(2))
        cl.enqueue_copy(self._queue, before, buffers["output"])
        cl.enqueue_copy(self._queue, buffers["output"], np.full_like(after, np.nan))
        seconds = self._least(lambda: blast(self._queue, sizes, given, shape[2]))
        cl.enqueue_copy(self._queue, after, buffers["output"])
        if not np.allclose(before, after, rtol=1e-3, atol=1e-2):
            raise RuntimeError("CLBlast's product is another")
        return seconds


def on_cpu(problem: Problem, algorithm: Literal["direct", "mcmr"], threads: int) -> float:
    """Seconds of our C kernels of an algorithm on this CPU, the fastest of some calls."""
    from winogen import Conv2d

    x, w = normal(problem)
    padding = tuple(axis.before for axis in problem.layer.plane)
    conv = Conv2d(w, padding=padding, layout="NHWC", algorithm=algorithm, threads=threads)
    conv(x)
    return least(lambda: conv(x), 4 * _REPEATS)


def measure(
    layers: list[BenchLayer], seconds: float, measured: Results, tunes_blast: bool
) -> dict[str, Any]:
    """Measure layers on the first device: the baselines, and what a search finds.

    ``measured``: what earlier searches measured, where this one goes on. ``tunes_blast``: CLBlast's
    own tuner searches first. Where the device is a CPU, our C kernels for it are measured, too,
    with as many threads.
    """
    from winogen.cli.tune_opencl import describe
    from winogen.opencl.devices import context_of
    from winogen.opencl.search import DeviceSearch

    context = context_of()
    device = context.devices[0]
    rivals, rows = Rivals(context, tunes_blast), []
    print(f"on {rivals.device} ({rivals.device.driver}); milliseconds, NHWC")
    print(f"{'layer':<28}" + "".join(f"{cell:>10}" for cell in (*_COLUMNS, "tried")))
    for layer in layers:
        row = {"name": layer.name, **rivals.times(layer)}
        problem = layer.problem("NHWC")
        if _is_cpu(device):
            units = device.max_compute_units
            row["c direct"], row["c mcmr"] = (
                on_cpu(problem, "direct", units), on_cpu(problem, "mcmr", units)
            )  # fmt: skip
        found = DeviceSearch(problem, context, measured)(seconds)
        for name, algorithm in (("direct", "direct"), ("winograd", "mcmr")):
            best = next((one for one in found.every if one.algorithm == algorithm), None)
            row[name] = best and best.seconds
        row["tried"] = found.tried
        row["front"] = [
            {"seconds": one.seconds, "workspace_bytes": one.workspace_bytes,
             "choice": describe(one)}
            for one in found.front
        ]  # fmt: skip
        rows.append(row)
        times = (row.get(name) for name in _COLUMNS.values())
        shown = "".join(f"{1e3 * t:>10.4g}" if t else f"{'-':>10}" for t in times)
        print(f"{layer.name:<28}{shown}{found.tried:>10}", flush=True)
        for one in row["front"]:
            print(f"    {1e3 * one['seconds']:>8.4g} ms {one['workspace_bytes']:>12,} bytes"
                  f"  {one['choice']}")  # fmt: skip
    return {"device": str(rivals.device), "driver": rivals.device.driver, "layers": rows}


def _is_cpu(device: Any) -> bool:
    import pyopencl as cl

    return bool(device.type & cl.device_type.CPU)


def main() -> None:
    """Print the figures that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", action="store_true", help="also measure on the first device")
    parser.add_argument("--points", action="store_true", help="count the points of all layers")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the search of a layer")
    parser.add_argument("--layers", help="numbers of layers of VGG-16, from 1; default: all")
    parser.add_argument("--results", type=Path, help="write the times here, as JSON")
    parser.add_argument("--tune-clblast", action="store_true", help="minutes, for each layer")
    parser.add_argument("--measured", type=Path, help="keep points here; a search goes on there")
    options = parser.parse_args()
    layers = list(vgg())
    if options.layers:
        layers = [layers[int(number) - 1] for number in options.layers.split(",")]
    if options.points:
        show_points(layers, layer_7(), _ROOMY)
        return
    if not options.device:
        show_bytes()
        return
    if options.tune_clblast and not shutil.which(TUNER):
        parser.error(f"--tune-clblast: there is no {TUNER}; on Debian: apt install clblast-utils")
    with closing(results_at(options.measured)) as measured:
        document = measure(layers, options.seconds, measured, options.tune_clblast)
    if options.results:
        options.results.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
