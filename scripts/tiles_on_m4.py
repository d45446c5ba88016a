#!/usr/bin/env python3
"""A 3x3 layer of a quantized network on a Cortex-M4: instructions directly and by tiles.

    python scripts/tiles_on_m4.py

Writes a network of one layer by `winogen generate`, twice: its constants as small as they can be,
and with `--flash-limit` for transformed filters. qemu's board mps2-an386 runs both on the same
codes and compares what they give. Needs onnx, onnxruntime, arm-none-eabi-gcc and qemu-system-arm.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from board_m4 import BARE, need_tools, output_of, sections_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from winogen.network import generate  # noqa: E402
from winogen.network.writing import Files  # noqa: E402

LAYERS = (16, 32, 32), (8, 64, 64), (28, 16, 16)  # pixels a side, channels, filters
_MEMORY = """
ENTRY(start)
MEMORY {
    code (rx) : ORIGIN = 0, LENGTH = 4M
    data (rwx) : ORIGIN = 0x20000000, LENGTH = 4M
}
top = ORIGIN(data) + LENGTH(data);
SECTIONS {
    .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.data*) } > code
    .ARM.exidx : { *(.ARM.exidx*) } > code
    .bss (NOLOAD) : { *(.bss*) *(COMMON) } > data
}
"""


class Counted(NamedTuple):
    """What a network takes, and a digest of the codes that it gives."""

    instructions: int
    constants: int  # bytes
    code: int  # bytes, with the constants
    arena: int  # bytes
    products: int
    digest: int


def model_of(size: int, channels: int, filters: int) -> object:
    """Return a network of one layer, with padding; its inputs and outputs are codes."""
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(size)
    arrays = {
        "xs": np.float32(0.02), "xz": np.uint8(28), "ws": np.full(filters, 0.01, np.float32),
        "w": random.integers(-127, 128, (filters, channels, 3, 3)).astype(np.int8),
        "wz": np.zeros(filters, np.int8), "ys": np.float32(0.01 * channels), "yz": np.uint8(121),
        "b": random.integers(-9999, 9999, filters).astype(np.int32),
    }  # fmt: skip
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    node = helper.make_node("QLinearConv", names, ["y"], "layer", pads=[1, 1, 1, 1])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, [1, maps, size, size])
        for name, maps in (("x", channels), ("y", filters))
    ]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(files: Files) -> Counted:
    """Compile the files of a network for the board and run it there."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        files.write(folder)
        (folder / "memory.ld").write_text(_MEMORY)
        sources = [str(path) for path in folder.glob("net*.c") if path.name != "net_test.c"]
        program = [f"-I{folder}", f"-T{folder}/memory.ld", "-o", f"{folder}/net", *sources]
        subprocess.run([*BARE, *program, str(ROOT / "scripts/tiles_on_m4.c")], check=True)
        code = sections_of(folder / "net")["text"]
        instructions, digest = map(int, output_of(folder / "net").split())
    return Counted(
        instructions, files.weight_bytes, code, files.arena_bytes, files.products, digest
    )


def counted(size: int, channels: int, filters: int) -> tuple[Counted, Counted]:
    """Return what a layer takes directly and by tiles; raises if their codes differ."""
    model = model_of(size, channels, filters)
    direct, tiles = (
        run(generate(model, isa="generic", flash_limit=limit)) for limit in (None, 1 << 24)
    )
    if direct.digest != tiles.digest:
        raise SystemExit("the codes of tiles differ from those of direct convolution")
    return direct, tiles


def main() -> None:
    """Print two lines for each layer."""
    need_tools()
    print(f"{'pixels, channels, filters':26} {'way':7} instructions   products  constants  arena")
    for layer in LAYERS:
        for way, one in zip(("direct", "tiles"), counted(*layer)):
            size, channels, filters = layer
            text = f"{size}x{size}, {channels}, {filters}"
            print(
                f"{text:26} {way:7} {one.instructions:12,} {one.products:10,} {one.constants:10,} "
                f"{one.arena:6,}"
            )


if __name__ == "__main__":
    main()
