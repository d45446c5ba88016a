"""Kernels as CUDA: NVIDIA's compiler takes them, and as C++ they compute what their records say."""

import ctypes
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from opencl import kernels, twin

from winogen.codegen.devices.render import render

CASES = {**kernels.EXACT, **kernels.WIDE}
SINGLE = [name for name in CASES if "float16" not in name]


@pytest.mark.parametrize(
    "name",
    [
        "product",
        *(pytest.param(one, marks=pytest.mark.thorough) for one in SINGLE if one != "product"),
    ],
)
def test_kernels_are_exact(name, tmp_path):
    work, given, wants = CASES[name]()
    results = twin.run(render(work, "cuda"), work, given, tmp_path, cuda=True)
    for array, want in wants.items():
        np.testing.assert_array_equal(results[array], want)


@pytest.mark.thorough
def test_functions(tmp_path):
    work, given, wants = kernels.functions(4)
    results = twin.run(render(work, "cuda"), work, given, tmp_path, cuda=True)
    for array, want in wants.items():
        np.testing.assert_allclose(results[array], want, rtol=1e-6)


def nvrtc():
    """NVIDIA's compiler as a library, of the wheel nvidia-cuda-nvrtc-cu12 or of the system."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        for path in Path(folder).glob("cuda_nvrtc/lib/libnvrtc.so.*"):
            return ctypes.CDLL(str(path))
    try:
        return ctypes.CDLL("libnvrtc.so")
    except OSError:
        pytest.skip("no nvrtc: pip install nvidia-cuda-nvrtc-cu12")


def ptx(text, *options):
    """Return what a text in CUDA becomes; the compiler's words are the error."""
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None)
    every = [b"--gpu-architecture=compute_75", *options]
    failed = library.nvrtcCompileProgram(
        program, len(every), (ctypes.c_char_p * len(every))(*every)
    )
    word = "ProgramLog" if failed else "PTX"
    getattr(library, f"nvrtcGet{word}Size")(program, ctypes.byref(size))
    result = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{word}")(program, result)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    assert not failed, result.value.decode()
    return result.value.decode()


@pytest.mark.parametrize("name", [*SINGLE, "functions"])
def test_the_compiler_takes_them(name):
    work, _, _ = {**CASES, "functions": lambda: kernels.functions(4)}[name]()
    result = ptx(render(work, "cuda"))
    for kernel in work.kernels:
        assert f".visible .entry {kernel.name}(" in result
