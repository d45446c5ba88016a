"""Quick compiles take the header of intrinsics as it was read before, whatever a kernel's flags."""

import subprocess

import pytest

from winogen.conv import stock
from winogen.records import FILTER_TYPES
from winogen.toolchain import find_compiler, host_targets
from winogen.toolchain.compiler import flags_for


@pytest.mark.parametrize("filters", (None, *FILTER_TYPES))
def test_gcc_takes_what_was_kept(filters, tmp_path):
    if find_compiler().family != "gcc":
        pytest.skip("other compilers read the header themselves")
    (tmp_path / "kernel.c").write_text("int number;\n")
    target = host_targets()[0].storing(*filter(None, (filters,)))
    flags = (*flags_for(target), *stock.FLAGS, "-H", "-o", "kernel.so")
    command = [*find_compiler().command, "kernel.c", *flags]
    run = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    # "!" stands before a header that was precompiled, "x" before one that did not fit.
    assert run.stderr.startswith("! ") or "\n! " in run.stderr, run.stderr
