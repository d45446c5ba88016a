"""A library of operators that carries plans and kernels, for processes without Python."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from winogen.codegen.render import render
from winogen.codegen.templates import Context, wrapped
from winogen.errors import CompileFailed, InvalidValue
from winogen.files import output_path, replace_file
from winogen.graph.code_calls import CodesContext
from winogen.graph.steps import Row
from winogen.kernels.kind import Spec
from winogen.kernels.quantized import QuantizedSpec, RealsSpec
from winogen.onnx.answers import Answer
from winogen.onnx.code_answers import CodeAnswer
from winogen.onnx.code_carrying import HeldArrays, plan_of
from winogen.onnx.library import FLAGS, planner, source
from winogen.onnx.loading import load, naming_damage, session_of
from winogen.onnx.model import Model
from winogen.onnx.operators import OWN_DOMAIN
from winogen.onnx.probes import feed_of, usual_sizes
from winogen.records import Target
from winogen.toolchain import find_compiler, host_target
from winogen.toolchain.compiler import flags_for
from winogen.toolchain.fork import finished
from winogen.toolchain.host import buildable
from winogen.typing import FilePath

if TYPE_CHECKING:
    from onnx import ModelProto


_DATA = "codes"


class File(NamedTuple):
    """C, or data that C includes, and what it is compiled for."""

    text: str | bytes
    target: Target


@naming_damage
def build_library(
    model_or_path: ModelProto | FilePath,
    output: FilePath,
    *,
    input_shapes: Mapping[str, Sequence[int]] | Sequence[Mapping[str, Sequence[int]]] | None = None,
    threads: int | None = None,
    isa: str | None = None,
) -> Path:
    """Write a shared library that runs an optimized model without Python; return its path.

    It has the operators, the kernels for this machine's instruction set, and the plans for the
    sizes of ``input_shapes``, or for several sets of them. Other sizes are computed the plain way.
    ``threads``: as many as the session will have; None for onnxruntime's default. ``isa``: an
    instruction set of this kind of CPU with its extensions, "avx2" or "avx512+vnni"; this CPU need
    not have it, and its kernels are compiled, but not run. None for all that this CPU has.

    Needs onnxruntime, which runs the model once for each set of sizes. Raises
    InvalidType, InvalidValue, MissingPackage, BuildError, and OSError.
    """
    path = output_path(output)
    target = None if isa is None else buildable(isa)
    proto = load(model_or_path)
    if not any(node.domain == OWN_DOMAIN for node in proto.graph.node):
        raise InvalidValue(
            "model: got one without winogen's operators; allowed: one that winogen.onnx.optimize "
            "made faster. One that it wrote as it was needs no library"
        )
    sets = (
        [input_shapes]
        if input_shapes is None or isinstance(input_shapes, Mapping)
        else input_shapes
    )
    answers: list[Answer | CodeAnswer] = []
    for shapes in sets:
        answers += _answers(proto, dict(shapes or {}), threads, target)
    _compile(_sources(answers, target), path)
    return path


def _answers(
    proto: Any, shapes: dict[str, Any], threads: int | None, target: Target | None
) -> list[Answer | CodeAnswer]:
    """All plans that the nodes of a model ask for, at these sizes."""
    model = Model(proto, shapes)
    feed = feed_of(model, usual_sizes(model), 0)
    asked = planner()
    with asked.recording(target=target) as recorded:
        session = session_of(proto, threads=threads or 0, library=asked.path)
        try:
            session.run(None, feed)
        except Exception as problem:  # onnxruntime's own kinds of errors
            raise InvalidValue(f"model: onnxruntime does not run it ({problem})") from problem
    return recorded


@dataclass(frozen=True, kw_only=True)
class CarriedContext(Context, templates=("runtime/carried.c.j2",)):
    """What the template of plans in a library knows."""

    kernels: Sequence[str]  # their names
    quantized: Collection[str]  # those of bytes among them
    reals: Collection[str]  # those of them that pack five arrays
    codes: Sequence[Mapping[str, Any]]  # plans of nodes of codes
    convs: Sequence[str]  # the structs of calls, as bytes in C
    plans: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class DataContext(Context, templates=("network/weights.S.j2",)):
    """What the template of an object with data knows."""

    command: str
    name: str  # how the file with the data begins
    symbols: Sequence[tuple[str, int, int]]  # each with its first byte, and how many there are


def _sources(answers: Sequence[Answer | CodeAnswer], elsewhere: Target | None) -> dict[str, File]:
    """The files of a library, by their names."""
    data = HeldArrays()
    kernels: dict[Spec, str] = {}
    convs: dict[bytes, int] = {}
    plans, codes = {}, {}
    target = elsewhere or host_target()

    def name_of(spec: Spec) -> str:
        return kernels.setdefault(spec, f"kernel_{len(kernels)}")

    def number_of(content: bytes) -> int:
        return convs.setdefault(content, len(convs))

    for answer in answers:
        if isinstance(answer, CodeAnswer):
            made = plan_of(answer, elsewhere, data, name_of, number_of)
            codes[repr(made)] = made
            continue
        question = answer.question
        steps = [_step(row, answer, kernels, convs) for row in answer.steps.rows]
        arrays = [
            f"{len(shape)}, {{ {', '.join(map(str, shape))} }}, {'YES' if constant else 'NULL'}"
            for shape, constant in zip(question.shapes, question.constant)
        ]
        sizes = (question.itemsize, len(question.layers), question.inputs, len(arrays), len(steps))
        plan = {
            "layers": question.layers,
            "arrays": arrays,
            "steps": steps,
            "numbers": ", ".join(map(str, (*sizes, answer.steps.scratch_bytes))),
            "scales": question.scales,
        }
        plans[repr(plan)] = plan  # equal nodes have equal plans
    quantized = {name for spec, name in kernels.items() if isinstance(spec, QuantizedSpec)}
    reals = {name for spec, name in kernels.items() if isinstance(spec, RealsSpec)}
    files = {f"{name}.c": File(render(spec, name), spec.target) for spec, name in kernels.items()}
    files["operators.c"] = File(source(), target)
    carried = CarriedContext(
        kernels=list(kernels.values()),
        quantized=quantized,
        reals=reals,
        codes=list(codes.values()),
        convs=[wrapped(map(str, content), 4, ", ") for content in convs],
        plans=list(plans.values()),
    ).render()
    files["carried.c"] = File(carried, target)
    if codes:
        files["codes.c"] = File(CodesContext().render(), target)
        symbols = [("winogen_carried_data", 0, len(data.bytes))]
        text = DataContext(command="winogen onnx library", name=_DATA, symbols=symbols).render()
        files["data.S"] = File(text, target)
        files[f"{_DATA}_weights.bin"] = File(bytes(data.bytes), target)
    return files


def _step(
    row: Row, answer: Answer, kernels: dict[Spec, str], convs: dict[bytes, int]
) -> dict[str, Any]:
    """A step as the template writes it; addresses of this process are left out."""
    question = answer.question
    spots = [(slot, offset if slot else 0) for slot, offset in row.pointers]
    pointers = ", ".join(f"{{ {slot}, {offset} }}" for slot, offset in spots)
    counts = ", ".join(map(str, (row.first, row.last, row.parts, row.threads)))
    call = row.call
    step = {
        "numbers": f"{{ {pointers} }}, {counts}",
        "conv": convs.setdefault(row.content, len(convs)),
    }
    nothing = {"pack": "NULL", "pack_quantized": "NULL", "weight": -1, "packed_bytes": 0}
    if call is None:
        real = "float" if question.itemsize == 4 else "double"
        what = "relayout" if answer.layer_of(row) < 0 else "map"
        return step | nothing | {"part": f"winogen_{what}_part_{real}"}
    spec = call.kernel.spec
    kernel = kernels.setdefault(spec, f"kernel_{len(kernels)}")
    weight = question.weights[answer.layer_of(row)]
    carries = question.constant[weight]  # packed when a session first needs it
    if row.packs or carries:
        name = "pack_quantized" if isinstance(spec, QuantizedSpec) else "pack"
        nothing[name] = f"{kernel}_pack"
    return {
        **step,
        **nothing,
        "part": "winogen_pack_part" if row.packs else f"{kernel}_part",
        "weight": weight,
        "packed_bytes": call.struct.packed_bytes if carries else 0,
    }


def _compile(files: Mapping[str, File], output: Path) -> None:
    """Compile all files and link them; raises CompileFailed with the compiler's words."""
    compiler = find_compiler()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, (content, _) in files.items():
            whole = content if isinstance(content, bytes) else content.encode()
            (folder / file).write_bytes(whole)

        def run(*words: str) -> None:
            command = [*compiler.command, *words]
            done = finished(command, cwd=folder)
            if done.returncode:
                raise CompileFailed(f"{shlex.join(command)}:\n{done.stderr or done.stdout}")

        def compile(file: str) -> str:
            flags = tuple(flag for flag in flags_for(files[file].target) if flag != "-shared")
            run(*compiler.spelled(flags), "-c", file, "-o", f"{file}.o")
            return f"{file}.o"

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            texts = [file for file, (content, _) in files.items() if isinstance(content, str)]
            objects = list(pool.map(compile, texts))
        run("-shared", *objects, *FLAGS, "-o", "library.so")
        replace_file(output, (folder / "library.so").read_bytes())
