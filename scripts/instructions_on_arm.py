#!/usr/bin/env python3
"""Instructions of generated layers on an emulated 64-bit ARM, beside the fewest and XNNPACK's.

    python scripts/instructions_on_arm.py [--size 56 --channels 64 --filters 64] [--xnnpack DIR]
    python scripts/instructions_on_arm.py --functions 4

Needs aarch64-linux-gnu-gcc, a C compiler for this machine, and qemu-aarch64 (7 to 9) with plugins.
Counted is one call with packed filters: that of two runs of a program with one call more. The
fewest are the products and the additions of both transforms, four numbers at a time, as if no
number were ever loaded or stored; products of float16, by FP16 of 64-bit ARM, eight at a time.
``--functions``: instead of a table of ways, the functions of
F(M x M, 3 x 3) in NHWC as the compiler left them: what it put into others counts there.
``--xnnpack``: a folder with include/xnnpack.h and, under lib, XNNPACK and what it needs for 64-bit
ARM, as Debian's packages libxnnpack-dev, libpthreadpool0 and libcpuinfo0 for arm64 have them under
usr.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from winogen.codegen.transforms import load
from winogen.columns import aligned
from winogen_lab.bench.layer_calls import FOLDER, program

SCRIPTS = Path(__file__).resolve().parent

_COMPILER = "aarch64-linux-gnu-gcc"
_LIBRARIES = "/usr/aarch64-linux-gnu"  # of C, for that CPU
LANES = 4
WAYS = {
    "direct": {"algorithm": "direct"},
    **{f"F({m}x{m}, 3x3)": {"algorithm": "mcmr", "tile": m} for m in (2, 4, 6)},
}
_HALVES = {"product_dtype": "float16"}
WAYS |= {f"{name}, float16": way | _HALVES for name, way in WAYS.items()}


def counted(path: str, *words: str) -> int:
    """Return the instructions of one call of a program whose argument is the number of calls."""
    one, two = (_run(path, calls, words) for calls in (1, 2))
    return int(two.split()[-2]) - int(one.split()[-2])


def by_function(path: str) -> Counter[str]:
    """Return the instructions of one call of a program, by the names of its functions."""
    symbols = subprocess.run(
        [_COMPILER.replace("gcc", "nm"), path], check=True, capture_output=True, text=True
    ).stdout
    starts = sorted(
        (int(address, 16), name)
        for address, kind, name in (line.split() for line in symbols.splitlines())
        if kind in "tT" and not name.startswith("$")
    )
    addresses = [address for address, _ in starts]
    found: Counter[str] = Counter()
    for calls in (1, 2):
        for line in _run(path, calls, options=",blocks=on").splitlines()[:-1]:
            address, instructions, times = line.split()
            name = starts[bisect_right(addresses, int(address, 16)) - 1][1]
            found[name] += (2 * calls - 3) * int(instructions) * int(times)
    return +found


def _run(path: str, calls: int, words: tuple[str, ...] = (), options: str = "") -> str:
    """What the plugin says of so many calls of a program."""
    with TemporaryDirectory() as folder:
        plugin = str(Path(folder, "count.so"))
        source = str(SCRIPTS / "count_instructions.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", plugin], check=True)
        command = ["qemu-aarch64", "-plugin", plugin + options, *words, path, str(calls)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stderr


def fewest(
    size: int, channels: int, filters: int, tile: int | None, product_dtype: str = "float32"
) -> float:
    """Return the multiply-adds of a layer and the instructions of both transforms, in vectors.

    >>> fewest(4, 4, 4, None) == 2 * fewest(4, 4, 4, None, "float16") == 16 * 16 * 9 / 4
    True
    """
    share = 0.5 if product_dtype == "float16" else 1
    if tile is None:
        return share * size * size * channels * filters * 9 / LANES
    transform = load(tile, 3)
    n, (into, _, out) = transform.n, transform.instructions
    tiles = (-(-size // tile)) ** 2
    products = share * n * n * channels * filters
    return tiles * (products + 2 * n * into * channels + (n + tile) * out * filters) / LANES


def by_winogen(size: int, channels: int, filters: int, layout: str, **options: object) -> int:
    """Return the instructions of a call of the layer as winogen writes it."""
    with TemporaryDirectory() as folder:
        return counted(_layer(folder, size, channels, filters, layout, options))


def _layer(
    folder: str, size: int, channels: int, filters: int, layout: str, options: dict[str, object]
) -> str:
    """The path of a program that calls the layer as winogen writes it."""
    image = (channels, size, size) if layout == "NCHW" else (size, size, channels)
    weight = (filters, channels, 3, 3)
    compiler = [_COMPILER, "-static"]
    isa = "neon+fp16" if options.get("product_dtype") else "neon"
    options |= {"isa": isa, "layout": layout}
    return program(folder, compiler, (1, *image), weight, **options)


def by_xnnpack(root: str, size: int, channels: int, filters: int) -> int:
    """Return the instructions of a call of XNNPACK's convolution."""
    libraries = sorted({str(one.parent) for one in Path(root).glob("lib/**/libXNNPACK.so")})
    sizes = {"SIZE": size, "CHANNELS": channels, "FILTERS": filters}
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "layer"))
        command = [
            _COMPILER,
            "-O2",
            str(SCRIPTS / "xnnpack_layer.c"),
            "-o",
            path,
            f"-I{root}/include",
        ]
        command += [f"-I{FOLDER}", *(f"-D{name}={count}" for name, count in sizes.items())]
        command += [*(f"-L{one}" for one in libraries), "-lXNNPACK", "-lpthreadpool", "-lcpuinfo"]
        subprocess.run([*command, "-Wl,--allow-shlib-undefined", "-lm"], check=True)
        found = ":".join(libraries)
        return counted(path, "-L", _LIBRARIES, "-E", f"LD_LIBRARY_PATH={found}")


def main(words: list[str] | None = None) -> None:
    """Print a table of instructions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, usual in (("size", 56), ("channels", 64), ("filters", 64)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--xnnpack", help="a folder with include and lib, of XNNPACK for arm64")
    parser.add_argument("--functions", type=int, metavar="M", help="those of F(M x M, 3 x 3)")
    asked = parser.parse_args(words)
    for tool in (_COMPILER, "cc", "qemu-aarch64"):
        if shutil.which(tool) is None:
            raise SystemExit(f"needs {tool}")
    sizes = asked.size, asked.channels, asked.filters
    if asked.functions:
        least = fewest(*sizes, asked.functions)
        with TemporaryDirectory() as folder:
            options: dict[str, object] = {"algorithm": "mcmr", "tile": asked.functions}
            found = by_function(_layer(folder, *sizes, "NHWC", options))
        rows = [["function", "million instructions", "of the fewest"]]
        for name, count in [*found.most_common(8), ("all", found.total())]:
            rows.append([name, f"{count / 1e6:.2f}", f"{count / least:.2f}"])
        print("\n".join(aligned(rows, left=1)))
        return
    rows = [["way", "layout", "million instructions", "of the fewest"]]
    for name, options in WAYS.items():
        numbers = options.get("product_dtype", "float32")
        least = fewest(*sizes, options.get("tile"), numbers)
        for layout in ("NCHW", "NHWC"):
            count = by_winogen(*sizes, layout, **options)
            rows.append([name, layout, f"{count / 1e6:.2f}", f"{count / least:.2f}"])
    if asked.xnnpack:
        count = by_xnnpack(asked.xnnpack, *sizes)
        share = count / fewest(*sizes, None)
        rows.append(["XNNPACK, direct", "NHWC", f"{count / 1e6:.2f}", f"{share:.2f}"])
    print("\n".join(aligned(rows, left=2)))


if __name__ == "__main__":
    main()
