"""gcc's header of intrinsics read once for many compiles: half the time of a quick one."""

import hashlib
import os
import subprocess
from pathlib import Path

from winogen.toolchain import find_compiler

# What kernels include, by target; none of it in plain C.
TEXT = """#if defined(__AVX2__) && !defined(__clang__)
#include <immintrin.h>
#elif defined(__SSE4_2__) && !defined(__clang__)
#include <nmmintrin.h>
#endif
"""


def intrinsics(folder: Path, flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return flags that have gcc take the header as it was read before with exactly these flags.

    It is read now if nobody did so in this ``folder``. Where gcc finds that nothing kept there fits
    its flags, it reads the header itself. Other compilers get no flags.
    """
    compiler = find_compiler()
    if compiler.family != "gcc":
        return ()
    header = folder / "intrinsics.h"
    kept = folder / "intrinsics.h.gch"
    kept.mkdir(parents=True, exist_ok=True)
    words = (*compiler.command, *flags)
    made = kept / hashlib.sha256(" ".join((compiler.version, *words)).encode()).hexdigest()[:16]
    if not made.exists():
        draft = folder / f"draft-{os.getpid()}"
        if not header.exists():
            draft.write_text(TEXT)
            draft.rename(header)
        command = [*words, "-x", "c-header", str(header), "-o", str(draft)]
        subprocess.run(command, check=True)
        draft.rename(made)
    return ("-include", str(header))
