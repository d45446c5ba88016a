"""Sessions: shapes and threads, processes without a planner, and every refusal."""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import onnxruntime as ort
import pytest
from conv.reference import convolve


def images(*shape, dtype=np.float32):
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


def expected(made, x, **options):
    return convolve(x, made.weight, padding=((1, 1), (1, 1)), **options)


def close(got, wanted):
    tolerance = 1e-5 if got.dtype == np.float32 else 1e-13
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max(initial=0) <= tolerance * np.abs(wanted).max(initial=1)


@pytest.mark.parametrize("weights", ("constant", "input"))
@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_every_shape_is_planned_once(dtype, weights, conv_model, session, planner):
    made = conv_model(dtype=dtype, weights=weights, pads=[1, 1, 1, 1])
    one = session(made.model)
    before = planner.plans
    for shape in ((1, 4, 9, 11), (2, 4, 8, 5), (1, 4, 9, 11), (0, 4, 9, 11)):
        x = images(*shape, dtype=dtype)
        feeds = {"x": x} | ({"w": made.weight} if weights == "input" else {})
        close(one.run(None, feeds)[0], expected(made, x))
    assert planner.plans == before + 2  # none for an empty batch
    del one
    assert planner.plans == before


def test_weights_that_come_with_the_call_may_change(conv_model, session):
    made = conv_model(weights="input", pads=[1, 1, 1, 1])
    one = session(made.model)
    x = images(1, 4, 9, 11)
    for factor in (1, -3):
        (y,) = one.run(None, {"x": x, "w": factor * made.weight})
        close(y, factor * expected(made, x))


def test_old_sizes_are_forgotten(conv_model, session, planner):
    made = conv_model(pads=[1, 1, 1, 1], tolerance=1e-5)
    one = session(made.model)
    before = planner.plans
    for width in range(3, 73):
        x = images(1, 4, 3, width)
        close(one.run(None, {"x": x})[0], expected(made, x))
    assert planner.plans == before + 64


def test_two_sessions_from_several_threads_at_once(conv_model, session):
    made = conv_model(pads=[1, 1, 1, 1])
    sessions = [session(made.model, threads=n) for n in (1, 2)]
    failures = []

    def work(seed):
        for i in range(10):
            x = images(1 + seed % 2, 4, 9 + i % 3, 11)
            try:
                close(sessions[seed % 2].run(None, {"x": x})[0], expected(made, x))
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("attributes", ({}, {"threads": 3}))
@pytest.mark.parametrize("spin", ("0", "1"))
def test_threads_do_not_change_the_bits(attributes, spin, conv_model, session):
    made = conv_model(pads=[1, 1, 1, 1], **attributes)
    x = images(3, 4, 40, 41)
    spinning = {"session.intra_op.allow_spinning": spin}
    one, two = (session(made.model, threads=n, **spinning).run(None, {"x": x})[0] for n in (1, 2))
    assert np.array_equal(one, two)


def test_nodes_that_run_side_by_side(library, planner):
    """A session with threads between nodes, too: two branches, then their sum."""
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    weights = [random.standard_normal((4, 4, 3, 3)).astype(np.float32) for _ in range(6)]
    nodes = []
    for i in range(6):
        x = "x" if i < 2 else f"v{i - 2}"
        nodes.append(
            helper.make_node(
                "Conv", [x, f"w{i}"], [f"v{i}"], domain="com.winogen", pads=[1] * 4, threads=2
            )
        )
    nodes.append(helper.make_node("Add", ["v4", "v5"], ["y"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "branches",
        [value("x", TensorProto.FLOAT, [1, 4, 24, 25])],
        [value("y", TensorProto.FLOAT, [1, 4, 24, 25])],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.winogen", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    x, results = images(1, 4, 24, 25), []
    for mode in (ort.ExecutionMode.ORT_SEQUENTIAL, ort.ExecutionMode.ORT_PARALLEL):
        options = ort.SessionOptions()
        options.register_custom_ops_library(library)
        options.execution_mode = mode
        options.intra_op_num_threads = options.inter_op_num_threads = 2
        one = ort.InferenceSession(model, options)
        results += [one.run(None, {"x": x})[0] for _ in range(20)]
    assert all(np.array_equal(results[0], result) for result in results)


def run_python(program, *arguments, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )


def test_a_process_without_a_planner_computes_the_plain_way(conv_model, library, tmp_path):
    made = conv_model(pads=[1, 1, 1, 1], activation="relu")
    (tmp_path / "model.onnx").write_bytes(made.model.SerializeToString())
    np.save(tmp_path / "x.npy", images(2, 4, 9, 11))
    program = """
        import sys
        import numpy as np, onnxruntime
        folder, library = sys.argv[1:]
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(library)
        session = onnxruntime.InferenceSession(folder + "/model.onnx", options)
        np.save(folder + "/y.npy", session.run(None, {"x": np.load(folder + "/x.npy")})[0])
        assert "winogen" not in sys.modules
    """
    run = run_python(program, tmp_path, library)
    assert run.returncode == 0, run.stderr
    close(np.load(tmp_path / "y.npy"), expected(made, images(2, 4, 9, 11), activation="relu"))


def test_a_forked_child_goes_on(conv_model, library, tmp_path):
    made = conv_model(pads=[1, 1, 1, 1])
    (tmp_path / "model.onnx").write_bytes(made.model.SerializeToString())
    program = """
        import os, sys
        import numpy as np, onnxruntime
        import winogen.onnx
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.register_custom_ops_library(winogen.onnx.get_library_path())
        session = onnxruntime.InferenceSession(sys.argv[1] + "/model.onnx", options)
        x = np.ones((2, 4, 9, 11), np.float32)
        before = session.run(None, {"x": x})[0]
        child = os.fork()
        if child == 0:
            same = np.array_equal(session.run(None, {"x": x})[0], before)
            new = session.run(None, {"x": x[:, :, 1:]})[0]  # planned in the child
            close = np.allclose(new[:, :, 1:-1], before[:, :, 2:-1], rtol=1e-5)
            os._exit(0 if same and close else 1)
        assert os.waitpid(child, 0)[1] == 0
    """
    run = run_python(program, tmp_path)
    assert run.returncode == 0, run.stderr


def test_sessions_may_outlive_python_planning(conv_model, session, planner):
    made = conv_model(pads=[1, 1, 1, 1])
    one = session(made.model)
    x = images(1, 4, 9, 11)
    first = one.run(None, {"x": x})[0]
    planner.remove()
    assert np.array_equal(one.run(None, {"x": x})[0], first)
    other = images(1, 4, 5, 6)
    close(one.run(None, {"x": other})[0], expected(made, other))


BAD_ATTRIBUTES = {
    "strides: got 1 numbers; allowed: 2": {"strides": [1]},
    "strides: got 0; allowed: at least 1": {"strides": [1, 0]},
    "dilations: got -1; allowed: at least 1": {"dilations": [-1, 1]},
    "pads: got -1; allowed: at least 0": {"pads": [0, 0, -1, 0]},
    'auto_pad: got "SAME"; allowed: NOTSET, VALID, SAME_UPPER, SAME_LOWER': {"auto_pad": "SAME"},
    'padding_mode: got "wrap"; allowed: zeros, reflect, replicate, circular': {
        "padding_mode": "wrap"
    },
    'activation: got "sine"; allowed: none, relu,': {"activation": "sine"},
    "slopes: got the input or the activation": {"activation": "prelu"},
    "group: got less than 1": {"group": 0},
    "threads: got a number out of range; allowed: 0 to 1024": {"threads": -1},
    "tolerance: got a number out of range; allowed: 0 to 1": {"tolerance": 1.5},
    "most_error: got a number out of range; allowed: 0 to 1": {"most_error": -1.0},
}


@pytest.mark.parametrize("message", BAD_ATTRIBUTES)
def test_wrong_attributes_are_refused_when_the_session_is_made(message, conv_model, session):
    with pytest.raises(Exception, match='winogen, node "layer": ') as caught:
        session(conv_model(**BAD_ATTRIBUTES[message]).model)
    assert message in str(caught.value)


BAD_SHAPES = {
    "X: got 5 channels; allowed: 4, group 1 times those of W": ((1, 5, 9, 9), {}),
    "X: got height 2; allowed: with its padding at least as long": ((1, 4, 2, 9), {}),
    "X: got 3 axes; allowed: 4, N, C, H, W": ((4, 9, 9), {}),
    "group: got 3; allowed: a divisor of the 8 filters": ((1, 12, 9, 9), {"group": 3}),
    "pads: got 9; allowed: at most 8 with this mode": (
        (1, 4, 9, 9),
        {"padding_mode": "reflect", "pads": [9, 0, 0, 0]},
    ),
}


@pytest.mark.parametrize("message", BAD_SHAPES)
def test_wrong_shapes_are_refused_when_they_come(message, conv_model, session):
    shape, attributes = BAD_SHAPES[message]
    made = conv_model(**attributes)
    made.model.graph.input[0].type.tensor_type.ClearField("shape")
    one = session(made.model)
    with pytest.raises(Exception, match='winogen, node "layer": ') as caught:
        one.run(None, {"x": images(*shape)})
    assert message in str(caught.value)


def test_wrong_biases_are_refused(conv_model, session):
    made = conv_model(("b", np.zeros(7, np.float32)))
    with pytest.raises(Exception, match="B: got 7 numbers; allowed: 8, one per filter"):
        session(made.model).run(None, {"x": images(1, 4, 9, 9)})


def test_an_error_of_the_planner_is_one_of_the_session(conv_model, session, monkeypatch):
    from winogen.errors import CompilerNotFound
    from winogen.onnx import answers

    def no_compiler(*arguments):
        raise CompilerNotFound("no C compiler: cc, gcc and clang are not on the path")

    monkeypatch.setattr(answers, "compile_all", no_compiler)
    one = session(conv_model().model)
    with pytest.raises(Exception, match='winogen, node "layer": no C compiler'):
        one.run(None, {"x": images(1, 4, 9, 9)})
    monkeypatch.undo()
    assert one.run(None, {"x": images(1, 4, 9, 9)})[0].shape == (1, 8, 7, 7)


def test_a_library_without_a_compiler(monkeypatch, tmp_path):
    from winogen.errors import CompilerNotFound
    from winogen.onnx.library import library

    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerNotFound, match="no-such-compiler"):
        library()


def test_an_old_onnxruntime_is_refused_by_name():
    """A stand-in for its table of functions: no C interface of the version that is needed."""
    from cffi import FFI

    from winogen.onnx.library import library

    ffi = FFI()
    ffi.cdef(
        """
        typedef void *(*create_status)(int kind, const char *message);
        typedef struct { create_status create; } api;
        typedef struct { const api *(*get)(uint32_t version); const char *(*version)(void); } base;
        void *RegisterCustomOps(void *options, const base *base);
        """
    )
    messages = []

    @ffi.callback("create_status")
    def create(kind, message):
        messages.append(ffi.string(message).decode())
        return ffi.cast("void *", 1)

    table = ffi.new("api *", {"create": create})

    @ffi.callback("const api *(uint32_t)")
    def get(version):
        return table if version <= 16 else ffi.NULL

    text = ffi.new("char[]", b"1.16.3")

    @ffi.callback("const char *(void)")
    def version():
        return text

    base = ffi.new("base *", {"get": get, "version": version})
    loaded = ffi.dlopen(str(library().path))
    assert loaded.RegisterCustomOps(ffi.NULL, base) == ffi.cast("void *", 1)
    assert messages == ["winogen: got onnxruntime 1.16.3; allowed: 1.17 or newer"]


def test_without_the_library_onnxruntime_says_what_is_missing(conv_model):
    with pytest.raises(Exception, match="com.winogen"):
        ort.InferenceSession(conv_model().model.SerializeToString())


@pytest.mark.parametrize("spins", (True, False))
def test_sessions_that_are_measured_wait_in_a_loop_for_a_moment(spins, conv_model, library):
    """Another session is measured right behind, and would have fewer processors."""
    from winogen.onnx.loading import new_session

    made = conv_model(pads=[1, 1, 1, 1])
    options = new_session(made.model, library=library, spins=spins).get_session_options()
    name, value = ("spin_duration_us", "500") if spins else ("allow_spinning", "0")
    assert options.get_session_config_entry(f"session.intra_op.{name}") == value
