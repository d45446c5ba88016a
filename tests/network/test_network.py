"""A model as a folder of C: it compiles anywhere, computes the model, and says what it needs."""

import re
import subprocess

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from graph.onnx_models import case_of
from onnx import helper

from winogen.errors import InvalidType, InvalidValue
from winogen.network import generate
from winogen.network.reading import loaded, network
from winogen.network.schedule import schedule
from winogen.toolchain import find_compiler, host_target


def net_of():
    # tests/onnx has the name of a package; its helpers are found by their file.
    import importlib.util
    from pathlib import Path

    path = Path(__file__).parents[1] / "onnx" / "nets.py"
    spec = importlib.util.spec_from_file_location("nets_of_onnx", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Net()


def small(shape=(1, 4, 12, 14)):
    """Convolutions with seams, a pool, an enlargement, slices of one buffer, two outputs."""
    net = net_of()
    a = net.node("Relu", net.norm(net.conv("x", 4, 8), 8))
    b = net.conv(net.node("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2]), 8, 8, groups=8)
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    c = net.node("Resize", net.node("Sigmoid", b), "", scales, mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    d = net.conv(net.node("Concat", a, c, axis=1), 16, 8, taps=1)
    e = net.node("Add", d, net.conv(d, 8, 8))
    pooled = net.node("AveragePool", e, kernel_shape=[2, 2], strides=[2, 2])
    flat = net.node("Flatten", pooled)
    weight = net.constant(net.weights(8 * shape[2] * shape[3] // 4, 5))
    scores = net.node("Softmax", net.node("Gemm", flat, weight, net.constant(net.weights(5))))
    return net.model(scores, e, shape=list(shape))


def chain(shape=(2, 3, 9, 11), widths=(6, 4)):
    net = net_of()
    y = net.conv(net.node("Relu", net.conv("x", shape[1], widths[0])), *widths, strides=[2, 2])
    return net.model(y, shape=list(shape))


@pytest.mark.parametrize("isa, weights", [(None, "const"), ("neon", "object"), ("armv7", "file")])
@pytest.mark.usefixtures("written")
def test_it_passes_its_own_test(isa, weights, tmp_path, make):
    files = generate(small(), isa=isa or host_target().name, weights=weights)
    files.write(tmp_path)
    assert make(tmp_path, "test", isa=isa).count(": right") == 2
    assert files.least_arena_bytes <= files.arena_bytes <= 1.1 * files.least_arena_bytes


THREADED = """
#include "net.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 5 };
static float x[NET_X_NUMBERS], whole[NET_Y_NUMBERS], y[NET_Y_NUMBERS];
static void *arena;
static pthread_barrier_t step_ends;

static void *run(void *part)
{
    for (int step = 0; step < NET_STEPS; step++) {
        net_run_part(step, x, y, arena, *(int *)part, PARTS);
        pthread_barrier_wait(&step_ends);
    }
    return NULL;
}

int main(void)
{
    int parts[PARTS];
    pthread_t threads[PARTS];
    arena = aligned_alloc(NET_ARENA_ALIGNMENT, NET_ARENA_BYTES_OF(PARTS));
    for (int i = 0; i < NET_X_NUMBERS; i++) x[i] = (float)(i % 13 - 6);
    net_run(x, whole, arena);
    memset(arena, 0xff, NET_ARENA_BYTES_OF(PARTS));
    memset(y, 0xff, sizeof y);
    pthread_barrier_init(&step_ends, NULL, PARTS);
    for (int i = 0; i < PARTS; i++) parts[i] = i, pthread_create(threads + i, NULL, run, parts + i);
    for (int i = 0; i < PARTS; i++) pthread_join(threads[i], NULL);
    free(arena);
    return memcmp(y, whole, sizeof y) != 0;
}
"""


@pytest.mark.parametrize("isa, weights", [(None, "const"), (None, "file"), ("neon", "object")])
def test_a_network_in_parts_passes_its_own_test(isa, weights, tmp_path, make):
    """Which runs three parts of each step, the last one first."""
    files = generate(small(), isa=isa, weights=weights, threads="caller:3")
    files.write(tmp_path)
    text = b"".join(files.contents.values())
    assert b"omp parallel" not in text and b"net_run_part" in files.contents["net.h"]
    assert make(tmp_path, "test", isa=isa).count(": right") == 2


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
@pytest.mark.parametrize("model", [chain(), chain((1, 64, 14, 14), (128, 256))])
def test_a_network_on_threads_of_its_caller(model, sanitizer, tmp_path):
    """Small maps with many filters, which threads of one kernel would share, are among them."""
    generate(model, threads="caller").write(tmp_path)
    (output,) = (one.name.upper() for one in model.graph.output)
    (tmp_path / "net_test.c").write_text(THREADED.replace("NET_Y", f"NET_{output}"))
    flags = ["-g", "-O1", "-pthread", f"-fsanitize={sanitizer}", *host_target().flags]
    sources = sorted(path.name for path in tmp_path.glob("*.c"))
    words = [*find_compiler().command, *flags, *sources, "-lm", "-o", "run"]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run(["./run"], cwd=tmp_path, capture_output=True, text=True)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this kernel's addresses are not what ThreadSanitizer knows")
    assert done.returncode == 0, done.stdout + done.stderr


def test_threads_of_a_network_are_its_caller_s_or_none():
    with pytest.raises(InvalidValue, match="^threads: got 2 with a model; allowed: None, or"):
        generate(small(), threads=2)


@pytest.mark.parametrize("isa", ["wasm", "wasm-relaxed", "rvv128"])
def test_a_network_by_clang_passes_its_own_test(isa, tmp_path, make):
    generate(chain(), isa=isa).write(tmp_path)
    assert make(tmp_path, "test", isa=isa).count(": right") == 1


def test_its_own_test_can_fail(tmp_path, make):
    generate(chain(), isa="generic").write(tmp_path)
    (tmp_path / "net_weights.c").write_text(
        (tmp_path / "net_weights.c").read_text().replace("e-01f", "e+00f")
    )
    with pytest.raises(AssertionError, match="WRONG"):
        make(tmp_path, "test")


@pytest.mark.parametrize("bias", [(), (1,), (4,), (1, 4), None])
def test_scaled_products_become_convolutions(bias, tmp_path, make):
    net = net_of()
    flat = net.node("Flatten", net.conv("x", 2, 3))
    arrays = [net.constant(net.weights(3 * 5 * 6, 4))]
    arrays += [] if bias is None else [net.constant(net.weights(*bias))]
    model = net.model(net.node("Gemm", flat, *arrays, alpha=0.5, beta=-3.0), shape=[2, 2, 5, 6])
    del model.graph.output[0].type.tensor_type.shape.dim[2:]
    generate(model, isa="generic").write(tmp_path)
    assert make(tmp_path, "test").count(": right") == 1


def signal(shape=(2, 3, 37)):
    net = net_of()
    arrays = [net.constant(net.weights(6, 3, 5)), net.constant(net.weights(6))]
    y = net.node("Relu", net.node("Conv", "x", *arrays, pads=[2, 2], strides=[2]))
    y = net.node("MaxPool", y, kernel_shape=[2], strides=[2])
    scores = net.node("Gemm", net.node("Flatten", y), net.constant(net.weights(54, 4)))
    model = net.model(scores, shape=list(shape))
    del model.graph.output[0].type.tensor_type.shape.dim[2:]
    return model


def enlarged(shape=(1, 3, 7, 5)):
    net = net_of()
    y = net.node("ConvTranspose", "x", net.constant(net.weights(3, 5, 3, 3)), strides=[2, 2],
                 pads=[1, 1, 0, 1], output_padding=[0, 1])  # fmt: skip
    return net.model(net.conv(net.node("Relu", y), 5, 2), shape=list(shape))


def volumes(shape=(2, 3, 5, 7, 6)):
    """Windows of the planes and of the depth, phases spread over both, a product at the end."""
    net = net_of()

    def conv(x, channels, filters, *taps, **attributes):
        return net.node(
            "Conv", x, net.constant(net.weights(filters, channels, *taps)), **attributes
        )

    x = net.node("Relu", net.norm(conv("x", 3, 6, 3, 3, 3, pads=[1] * 6), 6))
    x = conv(x, 6, 6, 3, 1, 1, pads=[1, 0, 0, 1, 0, 0])
    y = net.node("MaxPool", x, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    weight = net.constant(net.weights(6, 2, 2, 3, 2))
    y = net.node("ConvTranspose", y, weight, strides=[2, 2, 2], group=2)
    y = net.node("AveragePool", y, kernel_shape=[2, 2, 3], strides=[2, 3, 3])
    y = net.node("Flatten", net.node("GlobalAveragePool", y))
    model = net.model(net.node("Gemm", y, net.constant(net.weights(4, 5))), shape=list(shape))
    del model.graph.output[0].type.tensor_type.shape.dim[2:]
    return model


@pytest.mark.parametrize("model", [chain, signal, enlarged, volumes])
def test_it_computes_the_model_within_its_arrays(model, tmp_path, make, ends):
    model = model()
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    generate(model, isa="generic").write(tmp_path)
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    y = ends(tmp_path, x, wanted.size, make)
    assert np.abs(y - wanted.ravel()).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.thorough
def test_random_models(tmp_path, make, ends):
    """What is not refused computes what onnxruntime does."""
    computed = 0
    for index in range(12):
        case = case_of(20261125, index)
        (x, *others) = case.feeds[0].values()
        if others or x.dtype != np.float32 or not x.size:
            continue
        try:
            files = generate(case.model, isa="generic", input_shapes={"x": x.shape})
        except InvalidValue:
            continue
        if len(case.model.graph.output) > 1:
            continue
        (wanted,) = ort.InferenceSession(case.model.SerializeToString()).run(None, {"x": x})
        folder = tmp_path / str(index)
        files.write(folder)
        y = ends(folder, x, wanted.size, make)
        assert np.abs(y - wanted.ravel()).max() <= 1e-4 * np.abs(wanted).max(), index
        computed += 1
    assert computed >= 1


def test_its_own_test_sees_numbers_that_are_none(tmp_path, make):
    generate(chain(), isa="generic").write(tmp_path)
    source = (tmp_path / "net.c").read_text()
    output = re.search(r"float \*(\w+), void \*memory", source)[1]
    spoilt = source.rstrip().removesuffix("}") + f"    {output}[0] /= 0 * {output}[0];\n}}\n"
    (tmp_path / "net.c").write_text(spoilt)
    with pytest.raises(AssertionError, match=r"1 of \d+ are not finite"):
        make(tmp_path, "test")


NAMES = (
    "net_weights",
    "short",
    "NULL",
    "memory",
    "x",
    "X",
    "main",
    "net_run",
    "map_0",
    "this",
    "1/a b",
)


def test_any_names_of_arrays(tmp_path, make):
    """Words of C and C++, of the files, names that differ in case: all are renamed."""
    value, kind = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    weight = onnx.numpy_helper.from_array(np.ones((1, 1, 3, 3), np.float32), "filters */ #error /*")
    nodes = []
    for name in NAMES:
        node = helper.make_node("Conv", [name, weight.name], [f"{name} y"], f"a*/ \n#error {name}")
        nodes.append(node)
    ends = [value(name, kind, [1, 1, 5, 5]) for name in NAMES]
    outs = [value(f"{name} y", kind, [1, 1, 3, 3]) for name in NAMES]
    graph = helper.make_graph(nodes, "names", ends, outs, [weight])
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    generate(model, isa="generic", command="a*/ #error").write(tmp_path)
    assert make(tmp_path, "test").count(": right") == len(NAMES)
    make(tmp_path, "test", "-O1")  # other flags: made anew


def test_two_networks_are_linked_to_one_program(tmp_path):
    for name in ("one", "two"):
        generate(small(), name=name, isa="generic").write(tmp_path)
    main = '#include "one.h"\n#include "two.h"\nint main(void) { return !one_run || !two_run; }\n'
    (tmp_path / "main.c").write_text(main)
    sources = [path.name for path in tmp_path.glob("*.c") if not path.name.endswith("_test.c")]
    command = [*find_compiler().command, "-O0", *sources, "-lm", "-o", "both"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./both"], cwd=tmp_path, check=True)


def test_the_same_model_gives_the_same_bytes():
    assert generate(small(), isa="neon").contents == generate(small(), isa="neon").contents


def test_damaged_weights_are_refused(tmp_path, make):
    generate(chain(), isa="generic", weights="file").write(tmp_path)
    path = tmp_path / "net_weights.bin"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    for damaged in (bytes(data), bytes(data[:-64]), b"", b"winogen2" + bytes(data[8:])):
        path.write_bytes(damaged)
        with pytest.raises(AssertionError, match=r"net_weights\.bin: not there, or damaged"):
            make(tmp_path, "test")


def test_arrays_that_live_together_lie_apart():
    plan = schedule(network(loaded(small())), host_target())
    steps = plan.planned.steps
    used = {}
    for number, step in enumerate(steps):
        for place in (*step.reads, step.output):
            if place.buffer[0] == "arena":
                used.setdefault(place.buffer, []).append(number)
    spans = {
        (begin, begin + 4 * int(np.prod(plan.planned.rooms[buffer]))): (min(some), max(some))
        for buffer, some in used.items()
        for begin in [plan.begins[buffer]]
    }
    every = list(spans.items())
    for place, ((begin, end), (first, last)) in enumerate(every):
        assert end <= plan.arena_bytes
        for (other, behind), (start, stop) in every[place + 1 :]:
            assert end <= other or behind <= begin or last < start or stop < first


def test_layers_compute_in_no_more_memory_than_they_may():
    read = network(loaded(small((1, 4, 48, 48))))
    free = schedule(read, host_target())
    tight = schedule(read, host_target(), workspace_limit=40_000)

    def most(plan):
        return max(one.spec.workspace_bytes(one.work) for some in plan.kernels for one in some)

    assert most(tight) <= 40_000 < most(free)
    with pytest.raises(InvalidValue, match="workspace_limit: got 10"):
        schedule(read, host_target(), workspace_limit=10)


def test_what_is_not_generated_is_named(tmp_path):
    net = net_of()
    y = net.node("LRN", net.conv("x", 4, 4), size=3, name="up")
    with pytest.raises(InvalidValue, match=r"nodes of opset 17 that are not generated: .*up \(LRN"):
        generate(net.model(y, shape=[1, 4, 8, 8]))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"name": "a b"}, "name: got 'a b'; allowed: a C identifier"),
        ({"weights": "here"}, 'weights: got \'here\'; allowed: "const", "object", "file"'),
        ({"isa": "sse3"}, "isa: got 'sse3'; allowed:"),
        ({"tolerance": -1}, "tolerance: got -1; allowed:"),
        (
            {"input_shapes": {"z": (1, 4, 8, 8)}},
            "input_shapes: got 'z'; allowed: inputs of the mod",
        ),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises((InvalidValue, InvalidType)) as refused:
        generate(small(), **options)
    assert str(refused.value).startswith(message)


def test_open_sizes_have_to_be_given():
    model = chain(("n", 3, "h", "w"))
    with pytest.raises(InvalidValue, match="input_shapes: got none for x, n x 3 x h x w"):
        generate(model)
    assert network(loaded(model, {"x": (1, 3, 8, 8)})).maps == ((1, 3, 8, 8),)


def test_ends_that_no_function_has(tmp_path):
    model = chain()
    model.graph.output.append(model.graph.output[0])
    with pytest.raises(InvalidValue, match="model: got the output v2 twice; allowed: each once"):
        generate(model)
    with pytest.raises(InvalidValue, match=r"of sizes \(0, 3, 9, 11\); allowed: positive ones"):
        generate(chain((0, 3, 9, 11)))
    (tmp_path / "net.c").mkdir()
    with pytest.raises(InvalidValue, match="output: got .*net.c', which is not a regular file"):
        generate(chain(), isa="generic").write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["net.c"]


def test_numbers_of_other_types_are_refused():
    kind = onnx.TensorProto.DOUBLE
    value = helper.make_tensor_value_info
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph(
        [node], "g", [value("x", kind, [1, 1, 2, 2])], [value("y", kind, [1, 1, 2, 2])]
    )
    with pytest.raises(InvalidValue, match="model: got the input x of double; allowed: float"):
        generate(helper.make_model(graph))


@pytest.mark.parametrize(
    "file, name",
    [("up-2x.v1.onnx", "up_2x_v1"), ("7.onnx", "net_7"), ("m" * 200 + ".onnx", "m" * 60)],
)
def test_a_network_is_called_as_its_file(file, name, tmp_path):
    onnx.save(chain(), tmp_path / file)
    contents = generate(tmp_path / file, isa="generic", algorithm="direct").contents
    assert f"{name}.h" in contents and f"void {name}_run(" in contents[f"{name}.h"].decode()


def test_names_are_as_long_as_those_of_files_may_be(tmp_path):
    generate(chain(), isa="generic", algorithm="direct", name="n" * 200).write(tmp_path)
    with pytest.raises(InvalidValue, match="name: got 201 letters; allowed: 200 at most"):
        generate(chain(), isa="generic", name="n" * 201)


def test_no_command_leaves_its_code_in_the_description():
    command = "winogen generate m.onnx --input-shape 'a`<img src=x>|=1,3,9,11'"
    files = generate(chain(), isa="generic", algorithm="direct", command=command)
    assert f"Generated by `` {command} `` for" in files.contents["README.md"].decode()


def test_the_command_writes_what_python_does(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from winogen.cli.app import app

    monkeypatch.chdir(tmp_path)
    onnx.save(chain(("n", 3, "h", "w")), "chain.onnx")
    words = "generate chain.onnx --input x=1,3,8,8 --isa generic --weights object -o made"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.output
    shapes = {"x": (1, 3, 8, 8)}
    files = generate("chain.onnx", isa="generic", weights="object", input_shapes=shapes)
    assert sorted(files.contents) == sorted(path.name for path in (tmp_path / "made").iterdir())
    head = (tmp_path / "made" / "chain.h").read_text()
    assert "winogen generate chain.onnx --isa generic --weights object" in head
    data = files.contents["chain_weights.bin"]
    assert (tmp_path / "made" / "chain_weights.bin").read_bytes() == data
    assert str(files) in done.output


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(
    "isa, weights, kept", [(None, "const", "float16"), ("generic", "file", "bfloat16")]
)
def test_filters_of_16_bits_take_half_the_bytes(isa, weights, kept, tmp_path, make):
    options = {"isa": isa, "weights": weights, "algorithm": "direct"}
    model = chain((1, 32, 9, 11), (32, 32))  # in whole vectors
    files = generate(model, filter_dtype=kept, **options)
    files.write(tmp_path)
    assert make(tmp_path, "test").count(": right") == 1
    assert 1e-4 < files.predicted_error < 1e-2
    whole = generate(model, filter_dtype=None, **options)
    assert files.weight_bytes < whole.weight_bytes
    with pytest.raises(InvalidValue, match="^filter_dtype: got 'flyte8'; allowed: .float16"):
        generate(chain(), filter_dtype="flyte8", **options)


@pytest.mark.parametrize("isa, kept", [("neon", "float16"), ("armv7", "bfloat16")])
def test_filters_of_16_bits_for_other_cpus(isa, kept, tmp_path, make):
    files = generate(chain(), isa=isa, filter_dtype=kept, algorithm="direct")
    files.write(tmp_path)
    assert make(tmp_path, "test", isa=isa).count(": right") == 1


@pytest.mark.parametrize("kept", [None, "float16", "bfloat16"])
def test_filters_are_packed_without_the_instructions_of_their_cpu(kept, monkeypatch):
    """By portable C as by the kernel's own, for CPUs of any width."""
    files = [generate(chain(), filter_dtype=kept, algorithm="direct").contents]
    monkeypatch.setattr("winogen.conv.packing._runs_here", lambda target: False)
    files.append(generate(chain(), filter_dtype=kept, algorithm="direct").contents)
    assert files[0] == files[1]
    wide = generate(chain(), isa="avx512", filter_dtype=kept, algorithm="direct")
    assert "net_weights.c" in wide.contents
