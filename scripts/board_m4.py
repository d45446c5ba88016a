"""The emulated Cortex-M4 of the scripts that count its instructions: qemu's board mps2-an386."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

TOOLS = COMPILER, EMULATOR = "arm-none-eabi-gcc", "qemu-system-arm"
# Compiles programs that have no operating system under them: see board_m4.h.
BARE = (
    f"{COMPILER} -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -O3 -std=gnu11 "
    f"-ffunction-sections -Wl,--gc-sections -nostartfiles -I{Path(__file__).parent}"
).split()
_BOARD = "-M mps2-an386 -cpu cortex-m4 -icount shift=0 -semihosting -nographic".split()


def need_tools() -> None:
    """Exit with a word on what is not installed."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        raise SystemExit(f"needs {' and '.join(missing)}")


def output_of(program: Path) -> str:
    """Run a program on the board; return what it prints."""
    return subprocess.run(
        [EMULATOR, *_BOARD, "-kernel", str(program)],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
    ).stdout  # fmt: skip


def sections_of(program: Path) -> dict[str, int]:
    """Return the bytes of each section of a program, by names without their dots."""
    sizes = subprocess.run(
        ["arm-none-eabi-size", "-A", str(program)], check=True, capture_output=True, text=True
    ).stdout
    return {name: int(size) for name, size in re.findall(r"^\.(\S+)\s+(\d+)", sizes, re.MULTILINE)}
