"""Models as they come: a ModelProto or a file, both of which may be damaged."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from winogen import extras
from winogen.errors import InvalidType, InvalidValue, OutOfMemory, WinogenError
from winogen.extras import MissingPackage
from winogen.files import check_input
from winogen.onnx.operators import OWN_DOMAIN

_MOST_BYTES = (2 << 30) - 1  # of protobuf; more weights lie in files beside
# Weights of so many numbers are handed to onnxruntime as they are, if they are of these types.
_LARGE = 1024
_PLAIN = frozenset("FLOAT DOUBLE FLOAT16 INT8 UINT8 INT32 INT64".split())

_P = ParamSpec("_P")
_T = TypeVar("_T")


def require(name: str) -> Any:
    """Return a module of the extra `onnx`; raises MissingPackage."""
    return extras.require(name, "onnx")


def load(source: Any) -> Any:
    """Return a ModelProto from one, or from the path of a file, its external data included.

    Calls of the model's own functions are replaced by what these compute. Raises InvalidType,
    InvalidValue for a file that holds no model, and OSError.
    """
    return inlined(as_it_is(source))


def as_it_is(source: Any) -> Any:
    """Do the same, and leave functions."""
    onnx = require("onnx")
    if isinstance(source, onnx.ModelProto):
        for tensor in source.graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                raise InvalidValue(
                    f"model: got weights in another file ({tensor.name}); allowed: the path of the "
                    "model, so that they can be read, or a model with all its data"
                )
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidType(
            f"model: got {type(source).__name__}; allowed: a path or an onnx.ModelProto"
        )
    path = Path(source)
    check_input("model", path, "an ONNX file", _MOST_BYTES)
    try:
        model = onnx.load(path)
    except OSError:
        raise
    except Exception as problem:  # protobuf has errors of its own
        raise InvalidValue(f"model: got {path}, which is no ONNX model ({problem})") from problem
    if not model.HasField("graph") or not model.opset_import:
        raise InvalidValue(f"model: got {path}, which is no ONNX model")
    return model


def inlined(proto: Any) -> Any:
    """Return a model without calls of its own functions, but those of another opset than its."""
    if not proto.functions:
        return proto
    # The weights, which are not copied: functions read none of them by name.
    light, weights = without(proto, "graph"), proto.graph.initializer
    light.graph.CopyFrom(without(proto.graph, "initializer"))
    stubs = ((tensor.name, tensor.data_type) for tensor in weights)
    for name, kind in stubs:
        light.graph.initializer.add(name=name, data_type=kind)
    try:
        made = require("onnx.inliner").inline_local_functions(light)
    except MissingPackage:
        raise
    except Exception as problem:  # errors of its own
        why = first_line(problem)
        raise InvalidValue(f"model: got functions that onnx cannot put in ({why})") from problem
    del made.graph.initializer[:]
    made.graph.initializer.extend(weights)
    return made


def original(source: Any) -> Any:
    """Return a model as `load` does; raises InvalidValue for one that was optimized before."""
    proto = load(source)
    count = sum(node.domain == OWN_DOMAIN for node in proto.graph.node)
    if count:
        raise InvalidValue(
            f"model: got one with {count} nodes of winogen's, which was optimized before; allowed: "
            "the original"
        )
    return proto


def naming_damage(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a function of a model refuse a damaged one with InvalidValue.

    A model whose fields contradict each other fails anywhere, with any exception. It is blamed only
    if onnxruntime refuses it, too. Where memory is too small, OutOfMemory says so.
    """

    @wraps(function)
    def refusing(*args: _P.args, **options: _P.kwargs) -> _T:
        try:
            return function(*args, **options)
        except (WinogenError, OSError):
            raise
        except MemoryError as problem:
            raise OutOfMemory(f"model: too little memory ({first_line(problem)})") from problem
        except Exception as problem:
            model = args[0] if args else next(iter(options.values()))
            # Neither of them reads texts that are none.
            why = str(problem) if isinstance(problem, UnicodeDecodeError) else fault(model)
            if why is None:
                raise
            what = "one" if not isinstance(model, (str, os.PathLike)) else str(model)
            raise InvalidValue(f"model: got {what}, which is damaged ({why})") from problem

    return refusing


def fault(source: Any) -> str | None:
    """Return what speaks against a model that onnxruntime refuses; None if it takes it.

    Where it is not installed, onnx's checker decides.
    """
    refusal = None
    try:
        proto = load(source)
        if find_spec("onnxruntime") is not None:
            try:
                new_session(proto, optimized=False)
            except Exception as problem:  # errors of its own
                refusal = first_line(problem)
            else:
                return None
        # It wants shapes of outputs, which nobody else needs.
        known = require("onnx.shape_inference").infer_shapes(proto)
        require("onnx.checker").check_model(known, full_check=True)
    except MissingPackage:
        raise
    except Exception as problem:  # errors of its own
        return first_line(problem)
    return refusal


# Longer than what lies between the layers of a net, as for threads of winogen's.
_SPIN_MICROSECONDS = "500"


def new_session(
    proto: Any,
    *,
    optimized: bool = True,
    library: str = "",
    threads: int = 0,
    profile: str = "",
    saturates: bool = False,
    spins: bool = False,
) -> Any:
    """Return a session of onnxruntime's on the CPU; raises what it raises.

    ``profile``: how the file begins into which it writes how long its nodes take. ``saturates``:
    leave sums of products of bytes to the fastest instructions of CPUs without VNNI, as
    onnxruntime does where nobody asks; they add in 16 bits and cut what is larger. ``spins``: let
    its threads wait in a loop for the next run, as they do where nobody asks: a run begins sooner.
    They do so for half a millisecond, not for many, in which another session would have fewer
    processors.
    """
    ort = require("onnxruntime")
    light, weights = _apart(proto)
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what is wrong is in the exception
    options.intra_op_num_threads = threads
    if not saturates:
        options.add_session_config_entry("session.x64quantprecision", "1")
    spinning = ("spin_duration_us", _SPIN_MICROSECONDS) if spins else ("allow_spinning", "0")
    options.add_session_config_entry("session.intra_op." + spinning[0], spinning[1])
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    if library:
        options.register_custom_ops_library(library)
    arrays = [ort.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
    if arrays:
        options.add_external_initializers(list(weights), arrays)
    session = ort.InferenceSession(
        light.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    session.winogen_weights = arrays  # which it reads as long as it lives
    return session


def _apart(proto: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """A copy of a model without its large weights, and these by name.

    To write them down and to read that again takes most of the time until a session is there.
    """
    onnx = require("onnx")
    light, weights = without(proto, "graph"), dict[str, np.ndarray]()
    light.graph.CopyFrom(without(proto.graph, "initializer"))
    # onnxruntime drops what nothing reads, and then wants it.
    read = names_read(proto.graph)
    for tensor in proto.graph.initializer:
        stub = light.graph.initializer.add()
        kind = onnx.TensorProto.DataType.Name(tensor.data_type)
        is_large = math.prod(tensor.dims) >= _LARGE and tensor.name in read
        if not is_large or kind not in _PLAIN or not tensor.HasField("raw_data"):
            stub.CopyFrom(tensor)
            continue
        array = weights[tensor.name] = onnx.numpy_helper.to_array(tensor)
        stub.name, stub.data_type = tensor.name, tensor.data_type
        stub.dims.extend(tensor.dims)
        stub.data_location = onnx.TensorProto.EXTERNAL
        places = {"location": "memory", "offset": "0", "length": str(array.nbytes)}
        for key, value in places.items():
            stub.external_data.add(key=key, value=value)
    return light, weights


def names_read(graph: Any) -> set[str]:
    """Return the names that a graph reads or gives back, bodies of its attributes included."""
    names = {name for node in graph.node for name in node.input if name}
    names |= {value.name for value in graph.output}
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                names |= names_from_outside(inner)
    return names


def names_from_outside(graph: Any) -> set[str]:
    """Return the names that a body reads, and does not have itself."""
    own = {name for node in graph.node for name in node.output}
    own |= {value.name for value in graph.input} | {t.name for t in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    return names_read(graph) - own


def without(message: Any, *names: str) -> Any:
    """Return a copy of a protobuf without these fields."""
    copy = type(message)()
    for field, value in message.ListFields():
        if field.name in names:
            continue
        if isinstance(value, (str, bytes, int, float)):
            setattr(copy, field.name, value)
        else:
            getattr(copy, field.name).MergeFrom(value)
    return copy


def session_of(proto: Any, **options: Any) -> Any:
    """Return a session as `new_session` does; raises InvalidValue if onnxruntime refuses it."""
    try:
        return new_session(proto, **options)
    except MissingPackage:
        raise
    except Exception as problem:  # onnxruntime's own kinds of errors
        raise InvalidValue(f"model: onnxruntime does not run it ({problem})") from problem


def evaluator(proto: Any) -> Any:
    """Return onnx's own evaluator of a model, which runs as a session does.

    Its normalization of opsets 9 to 13 is that of training, its Erf has float32's digits: not here.
    Nor does it round float64 to float16 at once, where onnxruntime rounds to float32 first.
    """
    operator = require("onnx.reference.op_run").OpRun
    halves = require("onnx").TensorProto.FLOAT16

    class Erf(operator):  # type: ignore[misc, valid-type]
        op_domain = ""

        def _run(self, x: Any) -> Any:
            return (np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype),)

    class BatchNormalization(operator):  # type: ignore[misc, valid-type]
        op_domain = ""

        def _run(self, x: Any, scale: Any, bias: Any, mean: Any, var: Any, **values: Any) -> Any:
            shape = (1, -1, *[1] * (x.ndim - 2))
            scale, bias, mean, var = (array.reshape(shape) for array in (scale, bias, mean, var))
            y = (x - mean) * (scale / np.sqrt(var + values["epsilon"])) + bias
            return (y.astype(x.dtype),)

    class Cast(require("onnx.reference.ops").load_op("", "Cast")):  # type: ignore[misc]
        op_domain = ""

        def _run(self, x: Any, to: Any = None, **values: Any) -> Any:
            if to == halves and x.dtype == np.float64:
                x = x.astype(np.float32)
            return super()._run(x, to=to, **values)

    opset = max((e.version for e in proto.opset_import if e.domain in ("", "ai.onnx")), default=0)
    replaced = [Erf, Cast, BatchNormalization] if opset < 14 else [Erf, Cast]
    return require("onnx.reference").ReferenceEvaluator(proto, new_ops=replaced)


def computed(
    nodes: Iterable[Any], values: Mapping[str, Any], outputs: Iterable[str], opsets: Iterable[Any]
) -> list[Any] | None:
    """Return what nodes make of arrays, by onnx's evaluator; None where it cannot do that.

    ``values``: all that the nodes read. ``opsets``: what they mean.
    """
    helper = require("onnx").helper
    given, made = (
        [helper.make_empty_tensor_value_info(name) for name in names] for names in (values, outputs)
    )
    proto = helper.make_model(helper.make_graph(nodes, "part", given, made), opset_imports=opsets)
    try:
        with np.errstate(all="ignore"):
            return list(evaluator(proto).run(None, dict(values)))
    except Exception:  # it does not know all operators, nor all types
        return None


def first_line(problem: BaseException) -> str:
    """Return the first line of a message, at most 200 characters of it."""
    lines = str(problem).strip().splitlines()
    return lines[0][:200] if lines else type(problem).__name__
