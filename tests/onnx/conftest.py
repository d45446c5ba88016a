"""Sessions of onnxruntime with the operators, and small models.

The folder has the name of a package, so skips ask for a module in it.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from conv.conftest import quick_kernels, shipped_kernels

from winogen.testing import every_layer

__all__ = ["quick_kernels", "shipped_kernels"]

onnx = pytest.importorskip("onnx.helper") and pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


@pytest.fixture(autouse=True, scope="session")
def quiet():
    """No report of onnxruntime on errors that tests provoke."""
    ort.set_default_logger_severity(4)


@pytest.fixture(autouse=True)
def no_clock():
    """Nothing depends on a clock: winogen computes all that it can, but where a test has one."""
    with every_layer():
        yield


@pytest.fixture(autouse=True)
def no_originals(monkeypatch):
    """Sizes without a plan are computed the plain way, but in tests that have `originals`."""
    from winogen.onnx import writing

    monkeypatch.setattr(writing, "original_of", lambda *arguments: None)


@pytest.fixture
def originals(no_originals, monkeypatch):
    """Nodes of open sizes hold what onnxruntime computes instead."""
    from winogen.onnx import writing
    from winogen.onnx.originals import original_of

    monkeypatch.setattr(writing, "original_of", original_of)


@pytest.fixture
def clock(monkeypatch):
    """Sets the times that are measured: mappings from the first output of what runs to seconds.

    ``clock(parts, whole)``: of layers and segments, winogen's and onnxruntime's; of whole models.
    Those that are in neither are twice as fast by winogen.
    """
    from winogen.graph import decide
    from winogen.onnx import measuring
    from winogen.tasks import duel

    def set_times(parts=None, whole=None):
        def of_part(ours, theirs, clock):
            name = ours.func.__self__.get_outputs()[0].name
            return duel.Times(*((parts or {}).get(name) or (1.0, 2.0)))

        def of_whole(ours, theirs, clock, earlier):
            return duel.Times(*(whole or (1.0, 2.0)))

        for module in (decide, measuring, duel):
            monkeypatch.setattr(module, "is_every_layer", lambda: False)
        monkeypatch.setattr(measuring, "duel", of_part)
        monkeypatch.setattr(measuring, "duel_of_wholes", of_whole)

    return set_times


@pytest.fixture(scope="module")
def library(quick_kernels):
    """The path of the library, a planner installed."""
    from winogen.onnx import get_library_path

    return get_library_path()


@pytest.fixture
def planner(library):
    """The planner of the library; installed again if a test removes it."""
    from winogen.onnx.library import planner as installed

    one = installed()
    yield one
    one.install()


@pytest.fixture
def session(library):
    """Makes a session of a ModelProto; with ``threads`` of onnxruntime's."""

    def make(model, threads=1, **config):
        options = ort.SessionOptions()
        options.register_custom_ops_library(library)
        options.intra_op_num_threads = threads
        for name, value in config.items():
            options.add_session_config_entry(name, value)
        return ort.InferenceSession(model.SerializeToString(), options)

    return make


@pytest.fixture
def conv_model():
    """Makes a model of one node `com.winogen.Conv`, for one weight of shape (8, 4, 3, 3)."""

    def make(*extra, dtype=np.float32, weights="constant", name="layer", **attributes):
        weight = np.random.default_rng(0).standard_normal((8, 4, 3, 3)).astype(dtype)
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        value = onnx.helper.make_tensor_value_info
        constants = [onnx.numpy_helper.from_array(weight, "w")]
        inputs = [value("x", kind, ["n", "c", "h", "w_"])]
        if weights == "input":
            inputs.append(value("w", kind, weight.shape))
            constants = []
        for extra_name, array in extra:
            if extra_name:
                constants.append(onnx.numpy_helper.from_array(array, extra_name))
        node = onnx.helper.make_node(
            "Conv", ["x", "w", *(n for n, _ in extra)], ["y"], name, domain="com.winogen",
            **attributes,
        )  # fmt: skip
        graph = onnx.helper.make_graph([node], "one", inputs, [value("y", kind, None)], constants)
        opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.winogen", 1)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return SimpleNamespace(model=model, weight=weight)

    return make
