"""Libraries that carry plans: a process without Python's part runs by them."""

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import winogen.onnx
from winogen.codegen.render import render
from winogen.errors import CompileFailed, InvalidType, InvalidValue
from winogen.onnx import carrying
from winogen.toolchain import host_targets
from winogen.toolchain.host import buildable

# Runs models in a process that never loads winogen, and says which way each took: the plain way
# has sums of doubles, so that its float results are those of rounded exact sums.
PROGRAM = """
    import sys
    import numpy as np, onnxruntime
    folder, library = sys.argv[1:]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(folder + "/fast.onnx", options)
    inputs = np.load(folder + "/inputs.npz")
    outputs = {name: session.run(None, {"x": x})[0] for name, x in inputs.items()}
    np.savez(folder + "/outputs.npz", **outputs)
    assert "winogen" not in sys.modules
"""


@pytest.fixture(autouse=True)
def quick_compiles(monkeypatch):
    flags = carrying.flags_for
    quick = lambda target: tuple(flag if flag != "-O3" else "-Og" for flag in flags(target))
    monkeypatch.setattr(carrying, "flags_for", quick)


def net():
    """Two convolutions with a residual addition: a segment."""
    random = np.random.default_rng(0)
    arrays = {f"w{i}": random.standard_normal((8, 8, 3, 3)).astype(np.float32) for i in (1, 2)}
    arrays["high"] = np.array(1.5, np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1] * 4),
        helper.make_node("Clip", ["a", "", "high"], ["b"], "activation"),
        helper.make_node("Conv", ["b", "w2"], ["c"], "second", pads=[1] * 4),
        helper.make_node("Add", ["c", "x"], ["y"], "sum"),
    ]
    kind, shape = onnx.TensorProto.FLOAT, ["n", 8, "h", "w"]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, shape)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_a_library_without_python(session, tmp_path):
    model = winogen.onnx.optimize(net(), tmp_path / "fast.onnx")
    shapes = [{"x": (1, 8, 12, 16)}, {"x": (2, 8, 9, 7)}]
    path = winogen.onnx.build_library(model, tmp_path / "net.so", input_shapes=shapes, threads=2)
    known = {"carried": (1, 8, 12, 16), "also": (2, 8, 9, 7)}
    others = {"unknown": (1, 8, 11, 5), "empty": (0, 8, 12, 16)}
    inputs, outputs, _ = run_by(path, tmp_path, known | others)
    planned = session(model, threads=2)
    for name, x in inputs.items():
        (wanted,) = planned.run(None, {"x": x})
        assert outputs[name].shape == wanted.shape
        assert np.abs(outputs[name] - wanted).max(initial=0) <= 1e-5 * np.abs(wanted).max(initial=1)
        # Bit for bit where the same kernels ran, and the plain way is none of them.
        assert np.array_equal(outputs[name], wanted) == (name != "unknown")


def test_weights_that_come_with_the_call(conv_model, tmp_path):
    made = conv_model(weights="input", pads=[1, 1, 1, 1])
    onnx.save(made.model, tmp_path / "fast.onnx")
    shapes = {"x": (1, 4, 9, 11)}
    path = winogen.onnx.build_library(
        tmp_path / "fast.onnx", tmp_path / "w.so", input_shapes=shapes
    )
    program = """
        import sys
        import numpy as np, onnxruntime
        model, library = sys.argv[1:]
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(library)
        session = onnxruntime.InferenceSession(model, options)
        x = np.ones((1, 4, 9, 11), np.float32)
        for value in (1, 2):
            (y,) = session.run(None, {"x": x, "w": np.full((8, 4, 3, 3), value, np.float32)})
            assert np.allclose(y[0, :, 4, 4], 36 * value, rtol=1e-5)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path / "fast.onnx", path],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr


def telling(spec, name):
    """A kernel that says so when it runs."""
    text = render(spec, name).replace(f"{name}_part(", f"{name}_really(")
    return text + (
        f"#include <stdio.h>\nvoid {name}_part(const {name}_call *c, int64_t phase, "
        f'int64_t part, int64_t member)\n{{ if (!part) fprintf(stderr, "carried\\n");\n'
        f"{name}_really(c, phase, part, member); }}\n"
    )


def test_quantized_layers(session, tmp_path, monkeypatch):
    """Carried kernels say so when they run: integers are the same by any way."""
    from .test_quantized import any_integers, integer, linear

    monkeypatch.setattr("winogen.onnx.carrying.render", telling)
    random = np.random.default_rng(0)
    program = """
        import sys
        import numpy as np, onnxruntime
        folder, library = sys.argv[1:]
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(library)
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(f"{folder}/fast.onnx", options)
        for name, x in np.load(f"{folder}/inputs.npz").items():
            print(name, flush=True, file=sys.stderr)
            np.save(f"{folder}/{name}.npy", session.run(None, {"x": x})[0])
    """
    # Two layers of equal sizes, with other zero points.
    two = linear(random, shape=(3, 3, 3, 3), pads=[1] * 4)
    for tensor in list(two.graph.initializer):
        array = numpy_helper.to_array(tensor)
        changed = array ^ 85 if tensor.name in ("xz", "yz") else array
        two.graph.initializer.append(numpy_helper.from_array(changed, f"{tensor.name}2"))
    node = onnx.NodeProto.FromString(two.graph.node[0].SerializeToString())
    node.input[:] = ["between", *(f"{name}2" for name in node.input[1:])]
    node.name, two.graph.node[0].output[0] = "second", "between"
    two.graph.node.append(node)
    for model in (two, linear(random, "int8", "uint8", each=False), integer(random)):
        fast = winogen.onnx.optimize(model, tmp_path / "fast.onnx")
        shapes = {"x": (1, 3, 9, 11)}
        path = winogen.onnx.build_library(fast, tmp_path / "q.so", input_shapes=shapes, threads=1)
        kind = helper.tensor_dtype_to_np_dtype(fast.graph.input[0].type.tensor_type.elem_type)
        inputs = {
            "known": any_integers(random, kind, 1, 3, 9, 11),
            "unknown": any_integers(random, kind, 1, 3, 9, 10),
        }
        np.savez(tmp_path / "inputs.npz", **inputs)
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), tmp_path, path],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        carried = ["carried"] * len(model.graph.node)
        assert run.stderr.split() == ["known", *carried, "unknown"]
        for name, x in inputs.items():
            (wanted,) = session(fast).run(None, {"x": x})
            assert (np.load(tmp_path / f"{name}.npy") == wanted).all()


def test_what_is_refused(library, tmp_path, monkeypatch):
    with pytest.raises(InvalidValue, match="model: got one without winogen's operators"):
        winogen.onnx.build_library(net(), tmp_path / "net.so")
    model = winogen.onnx.optimize(net())
    with pytest.raises(InvalidValue, match="input_shapes: got none for x, n x 8 x h x w"):
        winogen.onnx.build_library(model, tmp_path / "net.so")
    with pytest.raises(InvalidType, match="output: got int; allowed: a path"):
        winogen.onnx.build_library(model, 3)
    text = "int main(void) { return no_such_name; }"
    broken = lambda answers, target: {"broken.c": carrying.File(text, carrying.host_target())}
    monkeypatch.setattr(carrying, "_sources", broken)
    with pytest.raises(CompileFailed, match="no_such_name"):
        winogen.onnx.build_library(
            model, tmp_path / "net.so", input_shapes={"x": (1, 8, 8, 8)}, threads=1
        )
    assert not (tmp_path / "net.so").exists()


def run_by(library, folder, shapes):
    """Run a model on random numbers; returns them, the outputs and what it said."""
    random = np.random.default_rng(1)
    inputs = {
        name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    return (inputs, *run_on(inputs, library, folder))


def run_on(inputs, library, folder):
    """Run a model in a process of its own: the outputs, and what it said on onnxruntime's log."""
    np.savez(folder / "inputs.npz", **inputs)
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), folder, library],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return np.load(folder / "outputs.npz"), run.stderr


def test_sizes_without_a_plan_are_told_once(library, tmp_path):
    model = winogen.onnx.optimize(net(), tmp_path / "fast.onnx")
    path = winogen.onnx.build_library(
        model, tmp_path / "net.so", input_shapes={"x": (1, 8, 12, 16)}, threads=2
    )
    shapes = {"known": (1, 8, 12, 16), "empty": (0, 8, 9, 9)}
    assert "no plan" not in run_by(path, tmp_path, shapes)[2]
    said = run_by(path, tmp_path, {**shapes, "a": (1, 8, 11, 5), "b": (2, 8, 7, 5)})[2]
    assert said.count("winogen, node") == 1
    assert "no plan for an input of 1x8x11x5" in said and "winogen onnx library MODEL" in said


@pytest.mark.parametrize("isa", ["generic", "sse2", "avx2", "avx512", "neon"])
def test_another_instruction_set(isa, library, tmp_path, monkeypatch):
    """Kernels are compiled for it, none is loaded here; where this CPU has it, they are right."""
    model = winogen.onnx.optimize(net(), tmp_path / "fast.onnx")
    shapes = {"x": (1, 8, 12, 16)}
    try:
        buildable(isa)
    except InvalidValue:
        with pytest.raises(InvalidValue, match=f"isa: got '{isa}'; allowed: "):
            winogen.onnx.build_library(model, tmp_path / "x.so", input_shapes=shapes, isa=isa)
        return
    compiled = []
    real = carrying._compile
    monkeypatch.setattr(
        carrying, "_compile", lambda files, path: (compiled.append(files), real(files, path))
    )
    with monkeypatch.context() as patch:
        patch.setattr("winogen.conv.execute.kernel", lambda *arguments: pytest.fail("loaded"))
        path = winogen.onnx.build_library(
            model, tmp_path / "net.so", input_shapes=shapes, threads=2, isa=isa
        )
    (files,) = compiled
    assert {file.target.name for file in files.values()} == {isa}
    assert any(name.startswith("kernel_") for name in files)
    if isa in [target.name for target in host_targets()]:
        inputs, outputs, said = run_by(path, tmp_path, {"known": shapes["x"]})
        (wanted,) = ort.InferenceSession(net().SerializeToString()).run(
            None, {"x": inputs["known"]}
        )
        assert np.abs(outputs["known"] - wanted).max() <= 1e-5 * np.abs(wanted).max()
        assert "no plan" not in said  # by the kernels that it carries


def test_quantized_layers_for_another_instruction_set(library, tmp_path):
    from .test_quantized import linear

    random = np.random.default_rng(0)
    fast = winogen.onnx.optimize(linear(random, shape=(3, 3, 3, 3), pads=[1] * 4))
    shapes = {"x": (1, 3, 9, 11)}
    path = winogen.onnx.build_library(
        fast, tmp_path / "q.so", input_shapes=shapes, threads=1, isa="generic"
    )
    onnx.save(fast, tmp_path / "fast.onnx")
    x = random.integers(0, 256, shapes["x"]).astype(np.uint8)
    program = """
        import sys
        import numpy as np, onnxruntime
        folder, library = sys.argv[1:]
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(library)
        session = onnxruntime.InferenceSession(f"{folder}/fast.onnx", options)
        np.save(f"{folder}/y.npy", session.run(None, {"x": np.load(f"{folder}/x.npy")})[0])
    """
    np.save(tmp_path / "x.npy", x)
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path, path],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0 and "no plan" not in run.stderr, run.stderr
    options = ort.SessionOptions()
    options.register_custom_ops_library(library)
    (wanted,) = ort.InferenceSession(fast.SerializeToString(), options).run(None, {"x": x})
    assert (np.load(tmp_path / "y.npy") == wanted).all()


def test_the_program_of_the_page_runs(library, tmp_path):
    """Compiled with a header of ours, linked with the library of Python's package."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    page = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text("utf-8")
    (program,) = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    (tmp_path / "run.cpp").write_text(program)
    shutil.copy(Path(__file__).with_name("onnxruntime_c_api.h"), tmp_path)
    libraries = sorted(Path(ort.__file__).parent.glob("capi/libonnxruntime.so*"))
    compile = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I.", "run.cpp"]
    if not libraries:
        subprocess.run([*compile, "-fsyntax-only"], cwd=tmp_path, check=True, timeout=120)
        pytest.skip("onnxruntime is not a library that programs can be linked with")
    (tmp_path / "libonnxruntime.so.1").symlink_to(libraries[0])  # what it calls itself
    link = ["libonnxruntime.so.1", f"-Wl,-rpath,{tmp_path}", "-o", "run"]
    subprocess.run([*compile, *link], cwd=tmp_path, check=True, timeout=120)
    weight = np.full((8, 3, 3, 3), 0.5, np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], "first", pads=[1] * 4)
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node], "net", [helper.make_tensor_value_info("x", kind, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", kind, ["n", 8, "h", "w"])],
        [numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    fast = winogen.onnx.optimize(model, tmp_path / "fast.onnx")
    path = winogen.onnx.build_library(
        fast, tmp_path / "fast.so", input_shapes={"x": (1, 3, 64, 96)}, threads=2
    )
    run = subprocess.run(
        ["./run", "fast.onnx", path], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0 and run.stdout == "6 13.5\n", run.stderr
    assert "no plan" not in run.stderr


@pytest.mark.thorough
def test_volumes(session, tmp_path):
    """With a pool of both stages and phases that are spread, at a known size and at another."""
    from .nets import Net
    from .test_axes import transposed

    built = Net()
    y = built.node("Conv", "x", built.constant(built.weights(8, 4, 3, 3, 3)), pads=[1] * 6)
    y = built.node("MaxPool", built.node("Relu", y), kernel_shape=[2] * 3, strides=[2] * 3)
    y = transposed(built, y, 8, 4, 2, 2, 2, strides=[2] * 3)
    whole = built.model(built.node("Add", y, "x"), shape=["n", 4, "d", "h", "w"])
    model = winogen.onnx.optimize(whole, tmp_path / "fast.onnx")
    known = {"x": (1, 4, 4, 6, 8)}
    path = winogen.onnx.build_library(model, tmp_path / "net.so", input_shapes=known, threads=2)
    shapes = {"known": known["x"], "other": (2, 4, 2, 4, 6)}
    inputs, outputs, said = run_by(path, tmp_path, shapes)
    for name, x in inputs.items():
        (wanted,) = session(model, threads=2).run(None, {"x": x})
        assert np.abs(outputs[name] - wanted).max() <= 1e-5 * np.abs(wanted).max()
        assert np.array_equal(outputs[name], wanted) == (name == "known")
    assert "no plan for an input of 2x4x2x4x6" in said


def test_onnxruntime_computes_sizes_without_a_plan(library, tmp_path, originals):
    """Where nodes hold their originals: as these do to the bit, without tens of times as long."""
    model = net()
    fast = winogen.onnx.optimize(model, tmp_path / "fast.onnx")
    path = winogen.onnx.build_library(
        fast, tmp_path / "net.so", input_shapes={"x": (1, 8, 12, 16)}, threads=2
    )
    shapes = {"known": (1, 8, 12, 16), "a": (1, 8, 11, 5), "b": (2, 8, 7, 5)}
    inputs, outputs, said = run_by(path, tmp_path, shapes)
    session = ort.InferenceSession(model.SerializeToString())
    for name, x in inputs.items():
        (wanted,) = session.run(None, {"x": x})
        assert np.array_equal(outputs[name], wanted) == (name != "known")
        assert np.abs(outputs[name] - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert said.count("winogen, node") == 1
    assert "no plan for an input of 1x8x11x5, which onnxruntime computes as the original" in said
