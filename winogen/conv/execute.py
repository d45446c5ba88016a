"""From a choice to running C: kernels are rendered, loaded and bound to a problem's sizes.

A `Kernel` is one loaded library. A `Prepared` problem holds the argument structs of all its kernel
calls, so that running it again costs little more than the calls.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from winogen.codegen import kernels
from winogen.codegen.targets import Target
from winogen.conv import arguments, memory, planner
from winogen.conv.choice import Choice, Rectangle, axes, multiplications
from winogen.conv.plan import Plan
from winogen.conv.problem import Layer, Problem
from winogen.conv.request import Request
from winogen.conv.work import Work
from winogen.toolchain import Library, kept, load
from winogen.toolchain.fork import team_threads

Ranking = list[tuple[float, Choice]]  # predicted seconds and candidate, fastest first


class Kernel:
    """A compiled kernel: packs weights and runs for any sizes of its algorithm and tile.

    Made by `kernel`, which compiles each only once.
    """

    def __init__(self, spec: kernels.KernelSpec):
        self.spec = spec
        # Rendering is most of what loading a kernel takes that was compiled before.
        self.source = kept(kernels.recipe(spec), lambda: kernels.render(spec))
        tile = [t.name for t in dict.fromkeys((spec.transform_h, spec.transform_w)) if t]
        name = "_".join([spec.algorithm, *tile, spec.dtype, spec.layout.lower()])
        library: Library = load(self.source, kernels.cdef(spec.dtype), spec.target, name=name)
        self.ffi = library.ffi
        self.lib = library.lib
        self.transforms = spec.transform_h, spec.transform_w
        real = "float" if spec.dtype == "float32" else "double"
        self.reals = self.ffi.typeof(f"{real}[]")

    def pack(self, sizes, weight: np.ndarray, threads: int) -> np.ndarray:
        """Return the weights, C-contiguous (M, C/groups, KH, KW), as this kernel reads them."""
        packed = memory.aligned(self.lib.winogen_packed_bytes(sizes), "packed weights")
        self.lib.winogen_pack(
            sizes, self.pointer(weight), self.pointer(packed), team_threads(threads)
        )
        return packed

    def pointer(self, array: np.ndarray):
        """Return a C pointer to the numbers of a contiguous array, which it keeps alive."""
        return self.ffi.from_buffer(self.reals, array)


@cache
def kernel(spec: kernels.KernelSpec) -> Kernel:
    """Return the kernel, rendered, compiled and loaded on first use.

    Raises BuildError and what derives from it.
    """
    return Kernel(spec)


def specify(layer: Layer, choice: Choice, target: Target) -> kernels.KernelSpec:
    """Return which kernel a choice needs."""
    along_h, along_w = axes(layer, choice)
    border = choice.border if choice.tile else "unswitch"
    filters = layer.filters // layer.groups
    halves = kernels.leaves_half(target, choice.algorithm, filters, target.lanes(layer.dtype))
    return kernels.KernelSpec(
        choice.algorithm,
        layer.dtype,
        layer.layout,
        target,
        along_h,
        along_w,
        border=border,
        halves=halves,
    )


def sizes(problem: Problem, part: Rectangle, work: Work) -> dict[str, int]:
    """Return the fields of `winogen_conv` for the kernel call ``work`` that computes ``part``."""
    layer = problem.layer
    height, width, out_height, out_width = problem.sizes(part.in_row)
    rows, cols = work.block
    return {
        "batch": problem.batch,
        "groups": layer.groups,
        "channels": layer.channels // layer.groups,
        "filters": layer.filters // layer.groups,
        "height": height,
        "width": width,
        "out_height": out_height,
        "out_width": out_width,
        "kernel_height": layer.kernel[0],
        "kernel_width": layer.kernel[1],
        "stride_h": layer.stride[0],
        "stride_w": layer.stride[1],
        "dilation_h": layer.dilation[0],
        "dilation_w": layer.dilation[1],
        "pad_top": layer.padding[0],
        "pad_left": layer.padding[2],
        "padding_mode": arguments.PADDING_MODES.index(layer.padding_mode),
        "row_begin": part.row_begin,
        "row_end": part.row_end,
        "col_begin": part.col_begin,
        "col_end": part.col_end,
        "relu": int(layer.relu),
        "block_rows": rows,
        "block_cols": cols,
        "block_images": work.images,
        "split": work.split,
    }


class Prepared:
    """A problem bound to kernels: pack the weights once, then run as often as wanted.

    Immutable after construction, so that threads may share it.
    """

    def __init__(self, problem: Problem, ranked: Ranking, target: Target, limit: int | None = None):
        choice = ranked[0][1]
        self.problem = problem
        self.ranked = ranked
        self.choice = choice
        self.target = target
        self.output_shape = problem.output_shape
        self.dtype = np.dtype(problem.layer.dtype)
        # (kernel, its argument struct, which of `kernels` it is) in the order of the calls
        self.calls = []
        self.kernels: list[Kernel] = []
        self._sizes = []  # per kernel, the struct that its weights are packed with
        for part, way in planner.parts(problem, choice):
            self._add(way, part, planner.blocking(problem, way, part, target, limit))
        self.workspace_bytes = max(
            (k.lib.winogen_workspace_bytes(sizes, choice.threads) for k, sizes, _ in self.calls),
            default=0,
        )

    def _add(self, choice: Choice, part: Rectangle, work: Work) -> None:
        """Bind the call that computes the outputs of ``part``."""
        code = kernel(specify(self.problem.layer, choice, self.target))
        struct = code.ffi.new("winogen_conv *", sizes(self.problem, part, work))
        if code not in self.kernels:
            self.kernels.append(code)
            self._sizes.append(struct)
        self.calls.append((code, struct, self.kernels.index(code)))

    def pack(self, weight: np.ndarray, kept: dict | None = None) -> tuple:
        """Return the packed weights of every call, for `run`.

        ``weight`` is C-contiguous. ``kept`` remembers them per kernel: packing does not depend on
        the input's sizes, so that all problems of one layer can share it.
        """
        kept = {} if kept is None else kept
        for code, sizes in zip(self.kernels, self._sizes):
            if code.lib not in kept:
                kept[code.lib] = code.pack(sizes, weight, self.choice.threads)
        return tuple(code.pointer(kept[code.lib]) for code in self.kernels)

    def run(self, input: np.ndarray, packed: tuple, bias: np.ndarray | None, output: np.ndarray):
        """Compute ``output`` from contiguous arrays of the right shapes, which are not checked."""
        if not output.size:
            return
        threads = team_threads(self.choice.threads)
        scratch = memory.workspace(self.workspace_bytes)
        for code, sizes, which in self.calls:
            code.lib.winogen_run(
                sizes,
                code.pointer(input),
                packed[which],
                code.ffi.NULL if bias is None else code.pointer(bias),
                code.pointer(output),
                code.ffi.from_buffer(scratch),
                threads,
            )

    def plan(self) -> Plan:
        """Return the description of what `run` does."""
        problem, layer, choice = self.problem, self.problem.layer, self.choice
        main = self.calls[0][0]
        packed = sum(
            code.lib.winogen_packed_bytes(sizes) for code, sizes in zip(self.kernels, self._sizes)
        )
        points = moduli = None
        if choice.tile is not None:
            points, moduli = (
                tuple(getattr(t, name) or None for t in main.transforms)
                for name in ("points", "moduli")
            )
        return Plan(
            input_shape=problem.input_shape,
            weight_shape=layer.weight_shape,
            output_shape=problem.output_shape,
            dtype=layer.dtype,
            layout=layer.layout,
            algorithm=choice.algorithm,
            tile=choice.tile,
            points=points,
            moduli=moduli,
            order=choice.order,
            edge=choice.edge,
            border=choice.border,
            isa=self.target.name,
            threads=choice.threads,
            workspace_bytes=self.workspace_bytes,
            packed_weight_bytes=packed,
            multiplications=multiplications(problem, choice),
            direct_multiplications=problem.direct_multiplications,
            predicted_error=planner.predicted_error(layer, choice, self.target),
            predictions=tuple(
                (
                    seconds,
                    planner.predicted_error(layer, way, self.target),
                    way.algorithm,
                    way.tile,
                    way.tag,
                )
                for seconds, way in self.ranked
            ),
            source=main.source,
            rim_source=self.kernels[1].source if len(self.kernels) > 1 else None,
        )


@lru_cache(maxsize=256)
def prepare(problem: Problem, request: Request, target: Target) -> Prepared:
    """Return the problem planned and bound to compiled kernels; the last 256 are remembered."""
    ranked = planner.ranked(problem, request, target, planner.ALTERNATIVES)
    return Prepared(problem, ranked, target, request.workspace_limit)
