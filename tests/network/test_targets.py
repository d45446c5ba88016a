"""Networks of real widths, as C for every instruction set: planned, compiled, run, compared."""

import numpy as np
import pytest
from codegen.elsewhere import ELSEWHERE
from network.test_network import net_of

from winogen.network import generate
from winogen.network.reading import loaded, network
from winogen.network.schedule import schedule
from winogen.records import TARGETS
from winogen.records.target import spelled
from winogen.toolchain import host_targets


def residual():
    """A stem, and two blocks with a skip each, of 64 and 128 channels."""
    net = net_of()
    y = net.node("Relu", net.norm(net.conv("x", 3, 64, taps=7, strides=[2, 2]), 64))
    y = net.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    a = net.node("Relu", net.conv(y, 64, 64))
    y = net.node("Relu", net.node("Add", y, net.conv(a, 64, 64)))
    a = net.node("Relu", net.conv(y, 64, 128, strides=[2, 2]))
    short = net.conv(y, 64, 128, taps=1, strides=[2, 2])
    y = net.node("Relu", net.node("Add", short, net.conv(a, 128, 128)))
    flat = net.node("Flatten", net.node("GlobalAveragePool", y))
    scores = net.node("Gemm", flat, net.constant(net.weights(128, 10)))
    return net.model(scores, shape=[1, 3, 112, 112])


def mobile():
    """Inverted bottlenecks: 1x1 layers and depthwise ones."""
    net = net_of()
    y = net.node("Relu", net.conv("x", 3, 32, strides=[2, 2]))
    y = net.conv(net.node("Relu", net.conv(y, 32, 32, groups=32)), 32, 16, taps=1)
    for channels, wide, filters, stride in ((16, 96, 24, 2), (24, 144, 24, 1)):
        a = net.node("Relu", net.conv(y, channels, wide, taps=1))
        a = net.node("Relu", net.conv(a, wide, wide, groups=wide, strides=[stride, stride]))
        a = net.conv(a, wide, filters, taps=1)
        y = net.node("Add", y, a) if stride == 1 else a
    return net.model(net.conv(y, 24, 64, taps=1), shape=[1, 3, 112, 112])


def u_shaped():
    """Down by pools and up by the nearest pixel, with a skip."""
    net = net_of()
    a = net.node("Relu", net.conv("x", 3, 32))
    b = net.node("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2])
    b = net.node("Relu", net.conv(net.node("Relu", net.conv(b, 32, 64)), 64, 64))
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    up = net.node("Resize", b, "", scales, mode="nearest", nearest_mode="floor",
                  coordinate_transformation_mode="asymmetric")  # fmt: skip
    y = net.node("Relu", net.conv(net.node("Concat", a, up, axis=1), 96, 32))
    return net.model(net.conv(y, 32, 4, taps=1), shape=[1, 3, 64, 64])


def dense():
    """A dense block of an upscaler: each layer reads all before it."""
    net = net_of()
    maps = [net.conv("x", 3, 64)]
    for number in range(3):
        whole = net.node("Concat", *maps, axis=1) if number else maps[0]
        maps.append(net.node("LeakyRelu", net.conv(whole, 64 + 32 * number, 32), alpha=0.2))
    y = net.node("Add", maps[0], net.conv(net.node("Concat", *maps, axis=1), 160, 64))
    y = net.node("DepthToSpace", net.conv(y, 64, 12), blocksize=2, mode="CRD")
    return net.model(y, shape=[1, 3, 56, 56])


NETS = {made.__name__: made for made in (residual, mobile, u_shaped, dense)}
ISAS = ("avx512", "avx2", "sse2", "generic", "neon", "neon+fp16", "armv7", "rvv128", "wasm",
        "wasm-relaxed")  # fmt: skip


def test_the_networks_are_wide_enough_for_the_kernels_of_large_ones():
    planned = set()
    for draft in NETS.values():
        read = network(loaded(draft()))
        plan = schedule(read, target=TARGETS["neon"], tolerance=None, algorithm="auto",
                        workspace_limit=None, filter_dtype=None)  # fmt: skip
        kernels = [*plan.kernels, *plan.strips.values()]
        planned |= {one.spec.entry.name for some in kernels for one in some if one is not None}
    assert planned >= {"mcmr", "winograd2d_tiles", "depthwise_planes", "planes", "pointwise"}


@pytest.mark.thorough
@pytest.mark.parametrize("isa", [*TARGETS, "neon+fp16"])
@pytest.mark.parametrize("net", NETS)
def test_a_network_is_generated_for_every_target(net, isa):
    files = generate(NETS[net](), isa=isa, weights="object")
    assert files.products <= files.direct_products


@pytest.mark.thorough
@pytest.mark.parametrize("isa", ISAS)
def test_a_network_computes_on_every_target(isa, tmp_path, make, seed):
    """One network of them, which changes with the files that were committed."""
    draft = list(NETS.values())[(seed + ISAS.index(isa)) % len(NETS)]
    name, _ = spelled(isa)
    here = isa in {one.name for one in host_targets()} and isa != "generic"
    if not here and name not in ELSEWHERE:
        pytest.skip(f"nothing here runs {isa}")
    weights = "const" if TARGETS[name].family == "wasm" else "object"
    generate(draft(), isa=isa, weights=weights).write(tmp_path)
    text = make(tmp_path, "test", "-O1 -Wshadow", None if here else name)
    assert ": right" in text and "WRONG" not in text
