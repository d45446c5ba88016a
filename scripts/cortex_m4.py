#!/usr/bin/env python3
"""Instructions of 3x3 layers of bytes on a Cortex-M4, by Winograd in integers and directly.

    python scripts/cortex_m4.py

Needs arm-none-eabi-gcc with newlib, and qemu-system-arm. Layers run on its board mps2-an386, whose
instructions take a nanosecond of its own time each; what they would take of a real one's cycles it
does not know. Direct convolution is done as CMSIS-NN does it: patches of two pixels as columns of
16 bits, against two filters at a time, by the same instruction. Results are compared.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from board_m4 import COMPILER, need_tools, output_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from winogen import cook_toom, winograd  # noqa: E402
from winogen.codegen import fixed  # noqa: E402
from winogen.fixed import integral  # noqa: E402

LAYERS = (16, 32, 32), (8, 64, 64), (28, 16, 16)  # pixels a side, channels, filters
ALGORITHMS = {
    "F(2x2,3x3)": lambda: cook_toom(2, 3),
    "F(4x4,3x3)": lambda: winograd(4, 3, "x, x-1, x+1, x^2+1, inf"),
    "by points": lambda: cook_toom(4, 3, "0, 1, -1, 1/2, -2, inf"),
}
_FLAGS = "-O3 -mcpu=cortex-m4 -mthumb -mfloat-abi=soft --specs=rdimon.specs".split()
_TICK = 40  # instructions of a tick of 25 MHz
_START = """
extern unsigned _stack;
extern void _start(void);
__attribute__((section(".vectors"), used))
static void *const vectors[2] = {&_stack, (void *)_start};
"""
_MEMORY = """
ENTRY(_start)
MEMORY {
    code (rx) : ORIGIN = 0, LENGTH = 4M
    data (rwx) : ORIGIN = 0x20000000, LENGTH = 4M
}
_stack = ORIGIN(data) + LENGTH(data);
__stack = _stack;
SECTIONS {
    .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) KEEP(*(.init)) KEEP(*(.fini)) } > code
    .ARM.exidx : { *(.ARM.exidx*) } > code
    .init_array : {
        __preinit_array_start = .; __preinit_array_end = .;
        __init_array_start = .; KEEP(*(.init_array*)) __init_array_end = .;
        __fini_array_start = .; __fini_array_end = .;
    } > code
    .data : { *(.data*) } > data
    .bss : { __bss_start__ = .; *(.bss*) *(COMMON) __bss_end__ = .; end = .; __end__ = .; } > data
}
"""


def counted(algorithm: str, size: int, channels: int, filters: int) -> tuple[int, int]:
    """Return the instructions of a layer by an algorithm and directly; raises if results differ."""
    made = integral(ALGORITHMS[algorithm]())
    header = fixed.render(made, fixed.widths(made, 8, 8, channels), "tile", algorithm)
    texts = {"tile.h": header, "start.c": _START, "memory.ld": _MEMORY}
    with TemporaryDirectory() as folder:
        for name, text in texts.items():
            Path(folder, name).write_text(text)
        sizes = [f"-DSIZE={size}", f"-DCHANNELS={channels}", f"-DFILTERS={filters}"]
        program = [*_FLAGS, *sizes, f"-I{folder}", f"-T{folder}/memory.ld", f"{folder}/start.c"]
        command = [COMPILER, *program, str(ROOT / "scripts/cortex_m4.c"), "-o", f"{folder}/layer"]
        subprocess.run(command, check=True)
        ours, direct, different = map(int, output_of(Path(folder, "layer")).split())
    if different:
        raise SystemExit(f"{different} results of {algorithm} differ from direct convolution")
    return _TICK * ours, _TICK * direct


def main() -> None:
    """Print a line for each layer and algorithm."""
    need_tools()
    print(f"{'pixels, channels, filters':26} {'algorithm':11} instructions  a product  of direct's")
    for size, channels, filters in LAYERS:
        products = size * size * channels * filters * 9
        for name in ALGORITHMS:
            ours, direct = counted(name, size, channels, filters)
            layer = f"{size}x{size}, {channels}, {filters}"
            print(f"{layer:26} {name:11} {ours:12,}  {ours / products:9.2f}  {ours / direct:11.2f}")
        print(f"{layer:26} {'direct':11} {direct:12,}  {direct / products:9.2f}")


if __name__ == "__main__":
    main()
