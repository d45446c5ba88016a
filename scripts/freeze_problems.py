"""Problems to be planned, drawn at random: for `freeze.py`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np

from winogen.conv import binding, execute, gemm, gradients, planner, separable, stock, transposed
from winogen.conv.problem import Layer, Seams
from winogen.conv.product import ProductProblem
from winogen.conv.quantized import QConv2d
from winogen.conv.request import EDGES, Request
from winogen.graph import choose
from winogen.kernels.spec import BORDERS, PADDING_MODES
from winogen.records import Epilogue, Machine, Target
from winogen.records.precision import PRODUCT_TYPES, TRIED_FILTER_TYPES
from winogen.tuning.layers import BenchLayer, layer_sets, load_layers
from winogen.tuning.space import Scope

Record = dict[str, Any]
# Parameters of a problem, which are its name, and what is planned for it on a place.
Drawn = tuple[Record, Callable[[], Record]]

LAYOUTS = "NCHW", "NHWC"
TOLERANCES = *(None,) * 4, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 3e-7
LIMITS = *(None,) * 6, 0, 20_000, 300_000, 4 << 20
ALGORITHMS = *("auto",) * 6, "direct", "im2col", "mcmr", "winograd2d", "winograd1d", "fft"
TILED = "mcmr", "winograd2d", "winograd1d"
TYPES = "float32", "float32", "float32", "float64", "float16", "bfloat16"
THREADS = 1, 4
BATCHES = 1, 1, 1, 3, 32
ACTIVATIONS = None, None, "relu", "silu", ("leaky_relu", 0.1)
MOST_WEIGHTS = 1 << 21  # of a layer of 8 bits
MOST_TAPS = 5  # along an axis, where a tile is named


# --- what is written


_sources: dict[Any, str] = {}


def _of_call(call: Any) -> Record:
    """The C and the struct of a kernel call."""
    spec = call.kernel.spec
    if spec not in _sources:
        _sources[spec] = digest(call.kernel.source)
    return {"source": _sources[spec], "struct": spec.values(call.work)}


def digest(content: str | bytes) -> str:
    """Return the digest of a text or of bytes."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _planned(plan: Any, calls: Any) -> Record:
    """A plan, and the calls that it describes."""
    return {"plan": plan.to_dict(), "text": str(plan), "calls": [_of_call(call) for call in calls]}


def _candidate(candidate: Any) -> Record:
    return {
        "choice": repr(candidate.choice),
        "seconds": candidate.seconds,
        "workspace": candidate.workspace_bytes,
    }


# --- what is drawn


@cache
def layers(transposed: bool = False) -> tuple[BenchLayer, ...]:
    """Return the different layers of all sets."""
    every = [layer for name in layer_sets() for layer in load_layers(name)]
    unlike = {replace(one, name="", net="").with_batch(1): one for one in every}
    return tuple(one for one in unlike if one.transposed == transposed)


def _named(layer: BenchLayer) -> Record:
    return {"input": layer.input, **{key: list(value) if isinstance(value, tuple) else value
                                     for key, value in layer.options.items()},
            "weight": layer.weight}  # fmt: skip


def _layer(random: Random, rank: int | None = None) -> BenchLayer:
    able = [one for one in layers() if rank in (None, one.rank)]
    rare = [one for one in able if one.rank != 2 or one.groups > 1 or max(one.weight[2:]) > 7]
    layer = random.choice(rare if rare and random.random() < 0.3 else able)
    return layer.with_batch(random.choice(BATCHES))


def _how(random: Random) -> Record:
    """Options of how something is computed."""
    options = {
        "algorithm": random.choice(ALGORITHMS),
        "tolerance": random.choice(TOLERANCES),
        "workspace_limit": random.choice(LIMITS),
        "threads": random.choice(THREADS),
    }
    if options["algorithm"] in TILED:
        options |= {
            "tile": random.choice((None, None, 2, 4)),
            "edge": random.choice(EDGES),
            "border": random.choice(BORDERS),
        }
    elif options["algorithm"] == "auto" and random.random() < 0.3:
        kind, types = random.choice((("filter", TRIED_FILTER_TYPES), ("product", PRODUCT_TYPES)))
        options |= {f"{kind}_dtype": random.choice(types), "tolerance": None}
    return options


def _problem(random: Random) -> tuple[Record, Callable[[], tuple[Any, Request]]]:
    """A convolution and how it is asked for."""
    bench, layout, how = _layer(random), random.choice(LAYOUTS), _how(random)
    dtype = random.choice(TYPES if "tile" not in how and "product_dtype" not in how else TYPES[:4])
    if max(bench.weight[2:]) > MOST_TAPS:  # whose tiles would take seconds to derive
        how.pop("tile", None)
    what = {"activation": random.choice(ACTIVATIONS)}
    if random.random() < 0.2:
        what["padding_mode"] = random.choice(PADDING_MODES)
    seams = random.choice((None, None, (8, 8, 0, 0), (0, 16, 4, 0), (0, 0, 0, 1)))
    named = _named(bench) | what | how | {"layout": layout, "dtype": dtype, "seams": seams}
    is_separable = bench.groups == bench.input[1] and random.random() < 0.5
    if is_separable:
        named["separable"] = True

    def made() -> tuple[Any, Request]:
        plain = bench.problem(layout).layer
        layer = Layer.of(bench.weight, dtype, layout=plain.layout, **bench.options, **what)
        problem = layer.problem(bench.problem(layout).input_shape)
        if seams is not None:
            around = layer.channels, layer.filters, *(layer.filters,) * 2
            wide = [width and more + width for width, more in zip(around, seams[:2])]
            added = [seam and layer.filters + seam for seam in seams[2:]]
            problem = problem.sewn(Seams(*wide, *added))
        request = Request.of(layer, **how)
        if is_separable:
            taps = np.ones(bench.weight, layer.dtype if dtype == "float64" else "float32")
            request = replace(request, separable=separable.distance(layer, request, taps))
        return problem, request

    return named, made


def convolution(random: Random, target: Target, machine: Machine) -> Drawn:
    """Return a convolution of any rank."""
    named, made = _problem(random)

    def planned() -> Record:
        problem, request = made()
        now = execute.Environment.now()
        bound = binding.prepare(problem, request, target, machine, now)
        return _planned(bound.plan(), bound.calls)

    return named, planned


def step(random: Random, target: Target, machine: Machine) -> Drawn:
    """Return a step of a network, which has ways with smaller filters beside the fastest."""
    named, made = _problem(random)
    named["most_error"] = most = random.choice((None, 1e-6, 3e-7))

    def planned() -> Record:
        problem, request = made()
        ways = choose.ways(problem.folded, request.folded(problem.layer), target, machine, most)
        return {"ways": [_candidate(one.candidate) | {"packed": one.packed_bytes} for one in ways]}

    return named, planned


def few(random: Random, target: Target, machine: Machine) -> Drawn:
    """Return a convolution for which there are no kernels but those of its worst way, or none."""
    named, made = _problem(random)
    named["kernels"] = kernels = random.choice((0, 1, 1, 2))

    def planned() -> Record:
        problem, request = made()
        problem, request = problem.folded, request.folded(problem.layer)
        ways = planner.ranked(problem, request, target, machine)
        wanted = [spec for way in ways[-kernels:] * bool(kernels) for spec in way.specs(problem)]
        only = stock.only(frozenset(wanted))
        found = planner.ranked(problem, request, target, machine, 8, None, only)
        return {"ways": [_candidate(one) for one in found]}

    return named, planned


def tuned(random: Random, target: Target, machine: Machine) -> Drawn:
    """Return what is measured first of a layer that is tuned."""
    bench, layout = _layer(random, 2), random.choice(LAYOUTS)
    tolerance = random.choice(TOLERANCES[:-2])
    named = _named(bench) | {"layout": layout, "tolerance": tolerance}

    def planned() -> Record:
        problem = bench.problem(layout).folded
        scope = Scope(problem, Request(tolerance=tolerance), target, machine)
        return {
            "start": [_candidate(one) | {"price": scope.price(one.choice)}
                      for one in scope.starting()],
            "most_error": scope.tolerance.most,
        }  # fmt: skip

    return named, planned


def transposed_convolution(random: Random, target: Target, machine: Machine) -> Drawn:
    """Return a transposed convolution of any rank: those of the sets, and others."""
    bench = random.choice(layers(True))
    if random.random() < 0.7:
        channels, filters = random.choice((8, 16, 32, 64)), random.choice((3, 16, 32))
        rank, taps = random.choice((1, 2, 2, 2, 3)), random.choice((2, 3, 4, 5))
        sizes = [random.choice((4, 7, 14, 28)) for _ in range(rank)]
        fields: Record = {"name": "x", "input": [1, channels, *sizes], "transposed": True}
        fields |= {"weight": [channels, filters, *[taps] * rank], "padding": random.choice((0, 1))}
        bench = BenchLayer.from_dict(fields | {"stride": random.choice((1, 2, 3))})
    layout, dtype = random.choice(LAYOUTS), random.choice(TYPES)
    algorithm = random.choice(("auto", "auto", "auto", "direct", "mcmr"))
    how = _how(random) | {"algorithm": algorithm}
    how = {name: how[name] for name in ("algorithm", "tolerance", "workspace_limit", "threads")}
    named = _named(bench) | how | {"layout": layout, "dtype": dtype}

    def planned() -> Record:
        layer = bench.transposed_layer(layout=layout, dtype=dtype, **how)
        problem = layer.problem(bench.posed(layout).input_shape)
        sample, now = layer.sample, execute.Environment.now()
        seams = Seams(sample.channels, sample.filters)
        way = transposed._way(problem, seams, target, machine, now)
        bound = [part for _, part in way.parts]
        return {
            "seconds": way.offer.prediction.seconds,
            "parts": [_planned(one.plan(), one.calls) for one in bound],
        }

    return named, planned


def of_bytes(random: Random, target: Target, machine: Machine) -> Drawn:
    """Return a convolution of 8-bit integers."""
    bench = _layer(random, 2)
    while np.prod(bench.weight) > MOST_WEIGHTS:
        bench = _layer(random, 2)
    how: Record = {
        "algorithm": random.choice(("auto", "auto", "auto", "direct", "im2col", "mcmr")),
        "layout": random.choice(LAYOUTS),
        "activation": random.choice((None, "relu", "silu")),
        "threads": random.choice(THREADS),
        "x_zero": random.choice((0, 3)),
        "w_zero": random.choice((0, 0, 2)),
    }
    if random.random() < 0.7:
        how |= {"w_scale": 0.5, "x_scale": 0.1, "y_scale": 0.4, "y_zero": random.choice((0, 7))}
    dtype = random.choice(("uint8", "int8"))

    def planned() -> Record:
        conv = QConv2d(np.ones(bench.weight, np.int8), None, **bench.options, **how)
        shape = bench.problem(how["layout"]).input_shape
        bound = [] if how["algorithm"] == "mcmr" else [conv.bound(shape, dtype)]
        return _planned(conv.plan(shape, dtype), bound)

    return _named(bench) | how | {"dtype": dtype}, planned


def gradient(random: Random, target: Target, machine: Machine) -> Drawn:
    """Return the gradient of weights."""
    able = [one for one in layers() if one.rank == 2 and one.stride == one.dilation == (1, 1)]
    able = [one for one in able if max(one.weight[2:]) <= MOST_TAPS]
    bench = random.choice(able).with_batch(random.choice(BATCHES))
    layout, dtype = random.choice(LAYOUTS), random.choice(("float32", "float32", "float64"))
    tile = random.choice((None, None, None, (1, 1)))
    tolerance, threads = random.choice(TOLERANCES), random.choice(THREADS)
    named = _named(bench) | {"layout": layout, "dtype": dtype, "tile": tile}

    def planned() -> Record:
        asked = Request(tile=tile or (), threads=threads, tolerance=tolerance)
        problem, now = bench.problem(layout, dtype), execute.Environment.now()
        bound = gradients.prepare(problem, asked, target, machine, now)
        assert isinstance(bound, gradients.WeightGradient)
        return {"calls": [_of_call(bound)], "tile": bound.work.tile}

    return named | {"tolerance": tolerance, "threads": threads}, planned


def product(random: Random, target: Target, machine: Machine) -> Drawn:
    """Return a product of matrices."""
    m, n, k = (random.choice((1, 3, 16, 24, 49, 64, 200, 512, 1000, 3136)) for _ in range(3))
    dtype, threads = random.choice(("float32", "float32", "float64")), random.choice(THREADS)
    packed, turned = random.random() < 0.5, random.random() < 0.3
    activation = random.choice((None, "relu", "gelu"))

    def planned() -> Record:
        left, right = (1, m) if turned else (k, 1), (n, 1)
        sizes = m, n, k, dtype, left, right, n, packed
        problem, now = ProductProblem(*sizes, Epilogue(activation)), execute.Environment.now()
        bound = gemm.prepare(problem, threads, (None, None), machine, now)
        return {"calls": [_of_call(bound)], "workspace": bound.workspace_bytes}

    sizes = {"m": m, "n": n, "k": k, "dtype": dtype, "packed": packed, "turned": turned}
    return sizes | {"activation": activation, "threads": threads}, planned


# How many of each kind are drawn.
PROBLEMS: dict[str, tuple[int, Callable[[Random, Target, Machine], Drawn]]] = {
    "convolution": (1800, convolution),
    "step": (400, step),
    "few": (300, few),
    "tuned": (60, tuned),
    "transposed": (400, transposed_convolution),
    "bytes": (400, of_bytes),
    "gradient": (200, gradient),
    "product": (300, product),
}
