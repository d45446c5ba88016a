#!/usr/bin/env python3
"""The net of handwritten digits in bytes, as C, on an emulated Cortex-M4: memory and instructions.

    python scripts/digits_on_m4.py [pictures]

Quantizes the trained net with onnxruntime, writes it by `winogen generate`, and links it with 64 KB
for code and constants and 32 KB for the arena, the stack and arrays; the pictures lie elsewhere.
An emulated board runs it: see board_m4.py, and cortex_m4.py for the direct convolution beside it,
done as CMSIS-NN does it. Needs onnx, onnxruntime, arm-none-eabi-gcc and qemu-system-arm.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from board_m4 import BARE, need_tools, output_of, sections_of

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lab")]

from winogen.network import generate  # noqa: E402
from winogen.onnx.loading import session_of  # noqa: E402
from winogen_lab.nets.digits import Digits, digits  # noqa: E402

CODE, DATA = 64 * 1024, 32 * 1024  # bytes
_SAMPLES = 200  # pictures for the ranges
_MEMORY = f"""
ENTRY(start)
MEMORY {{
    code (rx) : ORIGIN = 0, LENGTH = {CODE}
    test (rx) : ORIGIN = 1M, LENGTH = 1M
    data (rwx) : ORIGIN = 0x20000000, LENGTH = {DATA}
    spare (rwx) : ORIGIN = 0x20100000, LENGTH = 1M
}}
top = ORIGIN(data) + LENGTH(data);
SECTIONS {{
    .vectors : {{ KEEP(*(.vectors)) }} > code
    .test : {{ *driver.o(.text* .rodata*) }} > test
    .text : {{ *(.text*) *(.rodata*) *(.data*) }} > code
    .ARM.exidx : {{ *(.ARM.exidx*) }} > code
    .beside (NOLOAD) : {{ *(.beside) }} > spare
    .bss (NOLOAD) : {{ *(.bss*) *(COMMON) . = ALIGN(4); unused = .; }} > data
}}
"""


@dataclass(frozen=True)
class Run:
    """What the machine gave, and what it takes."""

    scores: np.ndarray  # (N, 10)
    expected: np.ndarray  # of onnxruntime
    step: float  # the distance of two codes of scores
    instructions: np.ndarray  # of each picture
    code: int  # bytes of code and constants
    arrays: int  # bytes of the arena and arrays
    stack: int  # bytes
    direct: int  # instructions of the second layer by direct convolution
    products: int


def quantized(net: Digits, folder: Path) -> Any:
    """Return the net with all layers quantized, for one picture."""
    import onnx
    from onnxruntime import quantization

    class Samples(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(net.training.pictures[:_SAMPLES])

        def get_next(self) -> dict[str, np.ndarray] | None:
            picture = next(self.rest, None)
            return None if picture is None else {"x": picture[None]}

    path, kind = folder / "bytes.onnx", quantization.QuantType.QInt8
    quantization.quantize_static(
        net.to_onnx(), path, Samples(), per_channel=True, activation_type=kind, weight_type=kind
    )
    return onnx.load(path)


def run(count: int = 50) -> Run:
    """Run the net on held out pictures; raises if it does not fit."""
    net = digits()
    pictures = net.held_out.pictures[:count]
    with TemporaryDirectory() as name:
        folder = Path(name)
        model = quantized(net, folder)
        files = generate(model, name="digits", isa="generic")
        files.write(folder)
        rows = ",\n".join(f"{{{','.join(map(float.hex, p.ravel().tolist()))}}}" for p in pictures)
        text = f"static const float pictures[PICTURES][64] = {{\n{rows}}};\n"
        text = f"enum {{ PICTURES = {len(pictures)} }};\n{text}"
        (folder / "pictures.h").write_text(text)
        (folder / "memory.ld").write_text(_MEMORY)
        sources = [f"{folder}/digits{part}.c" for part in ("", "_bytes", "_weights")]
        driver, flags = f"{folder}/driver.o", [*BARE, f"-I{folder}"]
        test = str(ROOT / "scripts/digits_on_m4.c")
        subprocess.run([*flags, "-c", test, "-o", driver], check=True)
        words = [f"-T{folder}/memory.ld", "-o", f"{folder}/net", *sources, driver]
        subprocess.run([*flags, *words], check=True)
        section = sections_of(folder / "net")
        printed = output_of(folder / "net")
        session = session_of(model)
        expected = np.concatenate([session.run(None, {"x": p[None]})[0] for p in pictures])
    *lines, stack, direct = printed.split("\n")[:-1]
    numbers = np.array([line.split() for line in lines], np.uint32)
    scale = model.graph.node[-1].input[1]
    (step,) = (t for t in model.graph.initializer if t.name == scale)
    return Run(
        numbers[:, :10].copy().view(np.float32),
        expected,
        float(np.frombuffer(step.raw_data, np.float32)[0]) if step.raw_data else step.float_data[0],
        numbers[:, 10],
        sum(section.get(one, 0) for one in ("vectors", "text", "ARM.exidx")),
        section["bss"],
        int(stack),
        int(direct),
        files.products,
    )


def main() -> None:
    """Print what the net takes."""
    need_tools()
    done = run(*map(int, sys.argv[1:]))
    off = np.abs(done.scores - done.expected).max() / done.step
    labels = digits().held_out.labels[: len(done.scores)]
    print(f"code and constants {done.code:,} of {CODE:,} bytes")
    print(f"arena and arrays {done.arrays:,} bytes, stack {done.stack:,}, of {DATA:,}")
    print(f"{len(done.scores)} pictures, scores off by {off:.0f} steps at most, "
          f"{(done.scores.argmax(1) == labels).mean():.1%} right")  # fmt: skip
    most = int(done.instructions.max())
    print(f"instructions a picture {most:,}, {most / done.products:.2f} a product")
    print(f"of the second layer alone, by direct convolution: {done.direct:,}")


if __name__ == "__main__":
    main()
