"""Layers as folders: what is written there runs, compares and says when it is wrong."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conv.reference import convolve
from opencl import devices, test_transposed, webgpu
from opencl.test_cuda import ptx
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.conv.problem import Layer
from winogen.errors import InvalidValue
from winogen.opencl.reference import numbers_of, reference
from winogen.opencl.standalone import standalone

HERE = Path(__file__).parent
WINOGRAD = {"input": "2,6,13,11", "weight": "8,3,3,3", "groups": "2", "padding": "1",
            "activation": "prelu", "layout": "NHWC", "algorithm": "mcmr"}  # fmt: skip
LAYERS = {
    "winograd": WINOGRAD,
    "direct": {"input": "1,5,9,10", "weight": "7,5,3,2", "stride": "2,1", "padding": "1",
               "padding_mode": "reflect", "activation": "gelu", "algorithm": "direct"},
    "float16": {**WINOGRAD, "layout": "NCHW", "dtype": "float16", "activation": "relu"},
    "direct float16": {"input": "1,4,8,8", "weight": "3,4,3,3", "algorithm": "direct",
                       "dtype": "float16"},
    "transposed": {"input": "2,6,7,5", "weight": "6,4,4,6", "stride": "2", "padding": "1,2",
                   "groups": "2", "activation": "prelu", "layout": "NHWC", "algorithm": "mcmr",
                   "transposed": None},
    "transposed direct": {"input": "1,3,6,7", "weight": "3,5,3,2", "stride": "2,4",
                          "dilation": "2,3", "padding": "2,0", "output_padding": "1",
                          "transposed": None},
    "signal": {"input": "2,5,40", "weight": "6,5,4", "padding": "2", "layout": "NWC",
               "activation": "silu", "algorithm": "mcmr"},
    "transposed signal": {"input": "2,4,9", "weight": "4,3,5", "stride": "3", "groups": "2",
                          "padding": "1", "transposed": None},
}  # fmt: skip
ONE, *OTHERS = LAYERS
CASES = [ONE, *(pytest.param(one, marks=pytest.mark.thorough) for one in OTHERS)]


def generate(folder, backend, options):
    """Run the command; return what it says."""
    words = []
    for key, value in options.items():
        words += [f"--{key.replace('_', '-')}", *([] if value is None else [value])]
    called = () if "name" in options else ("--name", "net")
    command = ["generate", "--backend", backend, *words, *called, "-o", str(folder)]
    return CliRunner().invoke(app, command)


def run(*command, folder):
    """Run a program in a folder."""
    return subprocess.run(
        [str(one) for one in command], cwd=folder, capture_output=True, text=True, timeout=300
    )


def made(folder, backend, layer):
    """Write a layer; its files are in the folder."""
    result = generate(folder, backend, LAYERS[layer])
    assert result.exit_code == 0, result.output
    assert {Path(line).name for line in result.stdout.split()} >= {
        one.name for one in folder.iterdir()
    }


def spoil(path):
    """Change the last number that is expected."""
    data = path.read_bytes()
    path.write_bytes(data[:-2] + b"\x55\x44")


@pytest.fixture
def compiled(tmp_path, request):
    """The test program of a layer in OpenCL, compiled without a warning."""
    devices.context()
    if not shutil.which("gcc") or not Path("/usr/include/CL/cl.h").exists():
        pytest.skip("no headers of OpenCL: apt-get install ocl-icd-opencl-dev")
    made(tmp_path, "opencl", request.param)
    flags = "CFLAGS=-O1 -g -Wall -Wextra -Wpedantic -Werror -fsanitize=undefined"
    done = run("make", "CC=gcc", flags, "net_test", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


@pytest.mark.parametrize("compiled", CASES, indirect=True)
def test_opencl_runs(compiled):
    done = run("./net_test", folder=compiled)
    assert done.returncode == 0 and done.stdout.endswith("allowed: right\n"), done
    assert not done.stderr
    # A wrong output is noticed, and kernels that the compiler refuses.
    spoil(compiled / "net_test.bin")
    done = run("./net_test", folder=compiled)
    assert done.returncode == 1 and done.stdout.endswith("WRONG\n")
    with (compiled / "net.cl").open("a") as kernels:
        kernels.write("nonsense")
    done = run("./net_test", folder=compiled)
    assert done.returncode == 2 and "net_create: error" in done.stderr
    (compiled / "net_test.bin").write_bytes(b"")
    done = run("./net_test", folder=compiled)
    assert done.returncode == 2 and "net_test.bin: not there, or cut off" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("compiled", ["winograd", "direct"], indirect=True)
def test_oclgrind_finds_nothing(compiled):
    if not shutil.which("oclgrind"):
        pytest.skip("no oclgrind: apt-get install oclgrind")
    done = run("make", "-B", "CC=gcc", "net_test", folder=compiled)
    # It does not know what optimized kernels freeze.
    options = ("--build-options", "-cl-opt-disable", "--data-races", "--uninitialized")
    done = run("oclgrind", *options, "./net_test", folder=compiled)
    assert done.returncode == 0 and done.stdout.endswith("right\n"), done
    assert not done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("layer", [one for one in LAYERS if "float16" not in one])
def test_cuda_runs(layer, tmp_path):
    made(tmp_path, "cuda", layer)
    if not shutil.which("g++"):
        pytest.skip("no g++: apt-get install g++")
    flags = (
        "-std=c++20",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unknown-pragmas",
        "-Wno-psabi",
    )
    checks = ("-fsanitize=address,undefined", "-I", HERE, "-include", "cuda_on_cpu.h")
    files = ("-x", "c++", "net.cu", "net_test.cpp", "-o", "net_test", "-pthread")
    done = run("g++", *flags, *checks, *files, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run("./net_test", folder=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("allowed: right\n"), done


@pytest.mark.parametrize("layer", ["winograd", "direct", "transposed", "transposed signal"])
def test_the_compiler_takes_cuda(layer, tmp_path):
    made(tmp_path, "cuda", layer)
    kernels, _, host = (tmp_path / "net.cu").read_text().partition("// ---- the program")
    assert host and ".visible .entry net_" in ptx(kernels)


@pytest.mark.thorough
@pytest.mark.parametrize("layer", LAYERS)
def test_python_runs_wgsl(layer, tmp_path):
    webgpu.device()
    made(tmp_path, "wgsl", layer)
    done = run(sys.executable, "net_test.py", folder=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("allowed: right\n"), done
    spoil(tmp_path / "net_test.bin")
    done = run(sys.executable, "net_test.py", folder=tmp_path)
    assert done.returncode == 1 and done.stdout.endswith("WRONG\n"), done


@pytest.mark.parametrize("layer", CASES)
def test_javascript_runs_wgsl(layer, tmp_path):
    webgpu.device()
    node = shutil.which("node") or pytest.skip("no node: apt-get install nodejs")
    made(tmp_path, "wgsl", layer)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    words = (tmp_path / "net_test.js", sys.executable, HERE / "replay.py")
    done = run(node, HERE / "gpu.mjs", *words, folder=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("allowed: right\n"), done


@pytest.mark.parametrize("backend", ["opencl", "cuda", "wgsl"])
def test_the_same_layer_gives_the_same_bytes(backend):
    one, other = (
        standalone((1, 4, 6, 6), (4, 4, 3, 3), backend=backend, padding=1, add=True) for _ in "12"
    )
    assert one == other
    assert "conv_6x6_4_4_3x3_test.bin" in one
    assert "`add`, read by a call" in str(one["README.md"]).replace(
        " | 1 x 4 x 6 x 6 | float32 |", ","
    )


@pytest.mark.parametrize(
    "options",
    [
        {"padding": ((1, 0), (0, 1)), "groups": 2, "layout": "NHWC"},
        {
            "stride": (2, 1),
            "dilation": (1, 2),
            "padding_mode": "circular",
            "padding": ((2, 2), (1, 1)),
        },
    ],
)
def test_the_reference_is_a_convolution(options):
    layer = Layer.of((6, 4 // options.get("groups", 1), 3, 2), "float32", **options)
    shape = (2, 9, 8, 4) if options.get("layout") == "NHWC" else (2, 4, 9, 8)
    problem = layer.problem(shape)
    arrays = numbers_of(problem, {"input": shape, "weights": layer.weight_shape, "bias": (6,)})
    want = convolve(arrays["input"], arrays["weights"], arrays["bias"], **options)
    found = reference(problem, problem.epilogue, arrays)
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", test_transposed.LAYERS)
def test_the_reference_of_a_transposed_layer(name):
    case = test_transposed.LAYERS[name]
    arrays, problem = case.arrays(1), case.problem
    found = reference(case.asked, problem.epilogue, arrays)
    np.testing.assert_array_equal(found, case.wanted(arrays))


def test_files_say_shapes_as_the_layer_has_them():
    for options in ({}, {"transposed": True, "stride": 2, "output_padding": 1}):
        files = standalone((1, 4, 30), (4, 2, 5), backend="cuda", name="net", groups=2, **options)
        page = files["README.md"]
        assert "| `input` | 1 x 4 x 30 | float32 | read by a call |" in page
        assert "| `weights` | 4 x 2 x 5 | float32 | given once |" in page
        size = "1 x 4 x 64" if options else "1 x 4 x 26"
        assert f"| `output` | {size} | float32 | written by a call |" in page
        assert ("1D transposed convolution" in page) == bool(options)
        assert ("output padding 1" in page) == bool(options)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"isa": "avx2"}, "--isa: got 'avx2'; allowed: only without --backend opencl"),
        ({"filter_dtype": "float16"}, "--filter-dtype: got 'float16'; allowed: only without"),
        ({"name": "launch"}, "name: got 'launch', which the generated programs use"),
        ({"name": "a-b"}, "name: got 'a-b'; allowed: a C identifier"),
        ({"dtype": "float64"}, 'dtype: got \'float64\'; allowed: "float32", "float16"'),
        ({"algorithm": "planes"}, "algorithm: got 'planes'; allowed:"),
        ({"output_padding": "1"}, "output_padding: got '1'; allowed: only with --transposed"),
        (
            {"input": "1,3,4,5,6", "weight": "4,3,3,3,3", "layout": "NCDHW", "groups": "1"},
            "layout: got a layer of 3 axes; allowed on devices: 1 or 2, and winogen.Conv3d",
        ),
    ],
)
def test_what_is_wrong_is_said(words, says, tmp_path):
    result = generate(tmp_path / "new", "opencl", {**WINOGRAD, **words})
    assert result.exit_code and says in " ".join(result.output.split()).replace("│ ", "")
    assert not (tmp_path / "new").exists()


def test_layers_have_outputs():
    with pytest.raises(InvalidValue, match="input: got shape .*; allowed: at least one output"):
        standalone((0, 4, 6, 6), (4, 4, 3, 3), backend="opencl")
