"""One convolution of 8-bit integers as a pair of C files; for CPUs that this one need not be."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from winogen.codegen.hosts import HOSTS
from winogen.codegen.interface import byte_interface
from winogen.codegen.reference import Codes, Reference
from winogen.conv import arguments
from winogen.conv.problem import Layer, Problem
from winogen.conv.quantization import (
    BYTES,
    RANGES,
    SUMS,
    between,
    check_terms,
    scale,
)
from winogen.conv.quantized import ACTIVATIONS
from winogen.conv.quantized_planner import CallNumbers, ranked
from winogen.conv.request import Request
from winogen.conv.standalone import reference_of, whose
from winogen.conv.standalone_weights import carried
from winogen.errors import InvalidValue
from winogen.kernels.quantized import ALGORITHMS, QuantizedWork, Reals
from winogen.records import Epilogue
from winogen.toolchain import host_target


def standalone_quantized(
    input_shape: Any,
    weight_shape: Any,
    *,
    x_dtype: str = "uint8",
    x_zero: Any = 0,
    y_dtype: str | None = None,
    y_zero: Any = 0,
    y_scale: Any = None,
    add: bool = False,
    add_dtype: str = "uint8",
    add_scale: Any = None,
    add_zero: Any = 0,
    isa: str | None = None,
    name: str | None = None,
    activation: Any = None,
    algorithm: str = "auto",
    threads: Any = 1,
    weights: Any = None,
    host: str = "c",
    command: str = "winogen.conv.standalone_quantized",
    **options: Any,
) -> dict[str, str]:
    """Return {"<name>.c": text, "<name>.h": text} for one layer as `QConv2d` computes it.

    Weights are int8 with zero point 0; the scales, as one multiplier for each filter, come with
    the weights when those are packed. ``y_dtype``: "uint8", "int8", None for that of the input, or
    "int32" for sums. ``y_scale``: only for activations besides ReLU, and with ``add``; the
    multipliers then do without it. ``add``: whether an array of ``add_dtype`` is added before the
    activation. ``isa``: an instruction set of `TARGETS` with its extensions, as
    "avx512+vnni", by default this CPU's. ``options``: stride, padding, dilation, groups and layout
    of `QConv2d`. ``weights``: a mapping with "weight", "bias", "multiplier" and "slopes", as `pack`
    takes them, which a third file, "<name>_weights.c", then has packed. ``command``: what the files
    say regenerates them. Raises InvalidType and InvalidValue.

    >>> sorted(standalone_quantized((1, 64, 56, 56), (64, 64, 3, 3), padding=1, isa="avx2+avxvnni"))
    ['qconv_56x56_64_64_3x3.c', 'qconv_56x56_64_64_3x3.h']
    """
    x_dtype = arguments.choice("x_dtype", x_dtype, BYTES)
    y_dtype = arguments.choice("y_dtype", x_dtype if y_dtype is None else y_dtype,
                               (*BYTES, "int32"))  # fmt: skip
    sums = y_dtype == "int32"
    x_limits, limits = RANGES[x_dtype], SUMS if sums else RANGES[y_dtype]
    x_zero = arguments.whole("x_zero", x_zero, x_limits[0], between(x_limits), x_limits[1])
    zeros = (0, 0) if sums else limits
    y_zero = arguments.whole("y_zero", y_zero, zeros[0], between(zeros), zeros[1])
    epilogue = arguments.activation(activation)
    relu = epilogue.activation == "relu"
    reals = None
    if add or epilogue.activation not in ACTIVATIONS:
        if sums or y_scale is None:
            what = f"add: got {add!r}" if add else f"activation: got {activation!r}"
            where = "outputs that are sums" if sums else "no y_scale"
            raise InvalidValue(f"{what} with {where}; allowed: outputs of bytes, with y_scale")
        reals = Reals(replace(epilogue, add=bool(add)), scale("y_scale", y_scale))
    elif y_scale is not None:
        raise InvalidValue(
            f"y_scale: got {y_scale!r}; allowed: None, as the multipliers have it, but with add or "
            "an activation besides relu"
        )
    if not add:
        for what, value in (("add_scale", add_scale), ("add_zero", add_zero or None)):
            if value is not None:
                raise InvalidValue(f"{what}: got {value!r} without add; allowed: none")
    if reals is not None and add:
        add_dtype = arguments.choice("add_dtype", add_dtype, BYTES)
        limits_ = RANGES[add_dtype]
        reals = replace(
            reals,
            add_scale=scale("add_scale", add_scale),
            add_zero=arguments.whole(
                "add_zero", add_zero, limits_[0], between(limits_), limits_[1]
            ),
            add_signed=add_dtype == "int8",
        )
    layer = Layer.of(weight_shape, "uint8", **options)
    writer = HOSTS[arguments.choice("host", host, tuple(HOSTS))]
    writer.check("int8", layer.layout, "convolution of bytes")
    check_terms(layer.weight_shape)
    problem = layer.problem(input_shape)
    if not problem.batch:
        raise InvalidValue(f"input: got shape {tuple(input_shape)}; allowed: a batch of at least 1")
    numbers = CallNumbers(
        sums,
        signed_input=x_dtype == "int8",
        x_zero=x_zero,
        y_zero=y_zero,
        limits=(max(limits[0], y_zero) if relu and reals is None else limits[0], limits[1]),
        reals=reals,
    )
    cut, shared = whose(threads)
    request = Request(
        arguments.choice("algorithm", algorithm, ("auto", *ALGORITHMS)),
        threads=arguments.threads(cut),
    )
    target = host_target() if isa is None else arguments.target(isa)
    work = ranked(problem, request, numbers, target)[0].work
    kernel = "x".join(map(str, layer.kernel))
    size = "x".join(map(str, problem.size))
    spec, fields, types = work.spec, work.spec.values(work), (x_dtype, y_dtype, add_dtype)
    shapes = {
        "input": problem.input_shape, "weight": layer.weight_shape, "output": problem.output_shape
    }  # fmt: skip
    interface = replace(
        byte_interface(spec, fields, types),
        shapes=shapes,
        shared=shared,
        reference=_reference(problem, work, (x_dtype, x_zero), numbers.limits),
    )
    name = name or f"qconv_{size}_{layer.channels}_{layer.filters}_{kernel}"
    interface, kept = carried(name, spec, fields, interface, weights, layer.weight_shape)
    about = _about(problem, work, types, epilogue, x_zero)
    return writer.files(name, spec, fields, interface, about, command, constants=kept)


def _reference(
    problem: Problem, work: QuantizedWork, x: tuple[str, int], limits: tuple[int, int]
) -> Reference:
    """What it computes, for programs that compute it again; ``x``: type and zero of the input."""
    reals, spec = work.reals, work.spec
    codes = Codes(
        sums=spec.sums,
        x_zero=x[1],
        y_zero=work.y_zero,
        limits=limits,
        in_reals=spec.in_reals,
        y_scale=reals.y_scale,
        add_scale=reals.add_scale,
        add_zero=reals.add_zero,
    )
    return replace(reference_of(problem), dtype=x[0], epilogue=reals.epilogue, codes=codes)


def _about(
    problem: Problem,
    work: QuantizedWork,
    types: tuple[str, ...],
    epilogue: Epilogue,
    x_zero: int,
) -> list[str]:
    layer, spec = problem.layer, work.spec
    top, bottom, left, right = layer.padding
    lines = [
        f"2D convolution of 8-bit integers, {layer.layout}, for {spec.target.name}.",
        f"input    {' x '.join(map(str, problem.input_shape))}, {types[0]}, zero point {x_zero}",
        f"weight   {' x '.join(map(str, layer.weight_shape))}, int8, zero point 0",
        f"output   {' x '.join(map(str, problem.output_shape))}, {types[1]}"
        + ("" if spec.sums else f", zero point {work.y_zero}"),
        f"padding  top {top}, bottom {bottom}, left {left}, right {right}",
    ]
    for what, value in (("stride", layer.stride), ("dilation", layer.dilation)):
        if value != (1, 1):
            lines.append(f"{what:<8} {' x '.join(map(str, value))}")
    if layer.groups > 1:
        lines.append(f"groups   {layer.groups}")
    lines.append(f"computed by {spec.algorithm}, products by {spec.dot.what}")
    if "amx" in spec.dot.extensions:
        lines.append("runs on CPUs with AMX-INT8 and Linux 5.16 or newer, which has to permit it")
    if spec.in_reals:
        lines.append(
            f"followed by {work.reals.epilogue.means}; steps of the output are "
            f"{work.reals.y_scale:g}"
        )
    elif epilogue.activation:
        lines.append("followed by relu")
    if work.reals.epilogue.add:
        lines.append(
            f"add      {types[2]}, scale {work.reals.add_scale:g}, zero point {work.reals.add_zero}"
        )
    terms = prod(layer.weight_shape[1:])
    lines.append(f"multiplications {work.products:,}, {terms:,} for every output")
    return lines
