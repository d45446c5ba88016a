"""A model as the files of a network: of floats, or of bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from winogen.codegen.standalone import check_name, name_after
from winogen.conv import arguments
from winogen.conv.standalone import CALLER, whose
from winogen.errors import (
    InvalidType,
    InvalidValue,
    Unsupported,
    VerificationError,
    WinogenError,
)
from winogen.files import check_folder, check_regular, whole_folder
from winogen.graph.promise import checked_promise
from winogen.network.bytes_reading import ByteNetwork, read_bytes
from winogen.network.bytes_testing import is_optimized
from winogen.network.bytes_writing import ByteWriter
from winogen.network.comparison import Claim, Differs, compared
from winogen.network.float_writing import FloatWriter
from winogen.network.hosts import HOSTS
from winogen.network.pieces import Cutting
from winogen.network.promising import KeptPromise, Promising
from winogen.network.reading import Network, loaded, network, shapes_of
from winogen.network.schedule import Schedule, schedule
from winogen.network.suspects import first_wrong
from winogen.network.trial import Program
from winogen.onnx.loading import load, naming_damage
from winogen.onnx.model import Model
from winogen.onnx.quantized_graph import is_quantized
from winogen.progress import working
from winogen.records import TARGETS, Target
from winogen.toolchain import host_target

# Where weights are: in C, in an object file, or in a file that the caller maps.
WEIGHTS = ("const", "object", "file")
_LONGEST = 200  # letters of the prefix of all files
FILTERS = ("float16", "bfloat16")  # what filters may be stored in, beside float32


@dataclass(frozen=True)
class Files:
    """The files of a network by name, and what there is to say of it."""

    contents: Mapping[str, bytes]
    arena_bytes: int
    least_arena_bytes: int  # that any arena would need
    weight_bytes: int
    predicted_error: float | None  # None: all is of bytes, whose sums are exact
    products: int
    direct_products: int  # that direct convolution has
    comparison: str = ""  # how it was compared with the model, or why it was not
    kept: KeptPromise | None = None  # what is promised of the error at the output, if asked for

    def __str__(self) -> str:
        text = (
            f"arena {self.arena_bytes:,} bytes, {self.least_arena_bytes:,} of them at one time; "
            f"weights {self.weight_bytes:,} bytes\n"
            f"multiplications {self.products:,}"
        )
        if self.products != self.direct_products:
            text += f" (direct convolution: {self.direct_products:,})"
        if self.predicted_error:
            text += f"; predicted error {self.predicted_error:.1e} of the largest output"
        promised = self.kept.line if self.kept else ""
        return "\n".join(filter(None, (text, promised, self.comparison)))

    def write(self, folder: str | Path) -> list[Path]:
        """Write all files into a folder, which is made; return their paths.

        It is there as a whole or not at all. Raises InvalidValue, and OSError that names it.
        """
        path = Path(folder)
        check_folder(path)
        for name in self.contents:
            check_regular("output", path / name, "files that are not there yet, or regular ones")
        with whole_folder(path) as draft:
            for name, data in self.contents.items():
                (draft / name).write_bytes(data)
        return [path / name for name in self.contents]


@naming_damage
def generate(
    model_or_path: Any,
    *,
    name: str | None = None,
    isa: str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    weights: str | None = None,
    tolerance: float | None = None,
    output_tolerance: float | None = None,
    algorithm: str = "auto",
    workspace_limit: int | None = None,
    filter_dtype: str | None = None,
    flash_limit: int | None = None,
    threads: Any = None,
    pieces: int | None = None,
    host: str = "c",
    check: bool = True,
    command: str = "winogen.network.generate",
) -> Files:
    """Return a model as C that needs no part of winogen, no allocator and no threads.

    ``model_or_path``: an onnx.ModelProto of float32, or a quantized one, or a path. ``name``: the
    prefix of files and functions, by default the name of the model's file, and "net" of a proto.
    ``isa``: an instruction set of `TARGETS` with its extensions, or a microcontroller, by default
    this CPU's. ``input_shapes``: sizes of inputs, where the model leaves them open; an open
    batch is 1. ``weights``: one of `WEIGHTS`, by default the first. ``tolerance``, ``algorithm``,
    ``workspace_limit``: of every layer of floats, as in `conv2d`.
    ``output_tolerance``: the largest error of each output, |y - y64| / |y64| (L2) against the model
    in float64, on normal random inputs and such between 0 and 1; None for no such promise. Each
    layer gets a tolerance of its own, where an error buys most of the time that is predicted for
    the instruction set, and keeps to ``tolerance`` besides. `Files.kept` has what came of it. It
    takes a check.
    ``filter_dtype``: None, or one of `FILTERS`, in which packed filters are stored; they take half
    the bytes, and are widened when they are read.
    ``flash_limit``: of a quantized model, how many bytes its constants may take: then 3x3 layers
    are computed by Winograd in integers, with the same codes, as far as their transformed filters
    find room. None: all are direct, whose constants are smallest.
    ``threads``: None for a network on one thread; "caller", or "caller:N" for about N of them: of
    a network of float32, each thread of the caller runs a part of every step.
    ``pieces``: None, or of how many samples the pieces are in which signals come: of a network of
    causal layers, which keeps what it has seen of a signal in a state of the caller. Outputs have
    the same bits with any such number, as direct convolutions give them.
    ``host``: "c" for a folder of C, or one of `winogen.network.hosts.HOSTS`, which chooses its own
    instruction sets and where weights are: "web" for a module that browsers and node load.
    ``check``: whether the C is compiled and runs beside the model, in onnxruntime, before it is
    returned: on this CPU if it has the instructions, else where an emulator and its compiler are,
    else as the same network for any CPU. `Files.comparison` says which it was, and why none was
    made where there is no compiler.
    ``command``: what the files say regenerates them.

    Nothing is written until all is there. Raises MissingPackage without the extra `onnx`,
    InvalidType, InvalidValue that names each node that is not generated, Unsupported, BuildError:
    packing the filters takes a compiler, or kernels at hand, and a host a compiler of its own; and
    VerificationError if the C computes anything but the model.
    """
    for what, text in (("isa", isa), ("command", command)):
        if not isinstance(text, (str, NoneType)):
            raise InvalidType(f"{what}: got {type(text).__name__}; allowed: a text")
    if name is None:
        name = name_after(model_or_path) if isinstance(model_or_path, (str, Path)) else "net"
    check_name(f"{check_name(name, _LONGEST)}_00")
    arguments.choice("host", host, ("c", *HOSTS))
    if weights is not None:
        arguments.choice("weights", weights, WEIGHTS)
    if tolerance is not None:
        arguments.positive("tolerance", tolerance, "None or a positive number, as 1e-6")
    if output_tolerance is not None:
        output_tolerance = checked_promise(output_tolerance)
    if filter_dtype is not None:
        arguments.choice("filter_dtype", filter_dtype, FILTERS)
    if flash_limit is not None:
        arguments.whole("flash_limit", flash_limit, 1, "None or a number of bytes")
    row = HOSTS.get(host)
    cut, shared = whose(row.threads if row is not None and threads is None else threads)
    if threads is not None and not shared:
        raise InvalidValue(f"threads: got {threads!r} with a model; allowed: None, or {CALLER!r}")
    if type(check) is not bool:
        raise InvalidType(f"check: got {type(check).__name__}; allowed: True or False")
    floats: dict[str, Any] = {
        "tolerance": tolerance,
        "algorithm": algorithm,
        "workspace_limit": workspace_limit,
        "filter_dtype": filter_dtype,
        "threads": arguments.threads(cut) if shared else None,
    }
    proto = load(model_or_path)
    cut = None
    if pieces is not None:
        cut = _cut(proto, pieces, input_shapes, host, algorithm, tolerance, output_tolerance)
        proto, input_shapes = cut.proto, cut.sizes()
    model = loaded(proto, input_shapes)
    if row is None:
        targets = [host_target() if isa is None else arguments.target(isa)]
        where, build = weights or WEIGHTS[0], None
    else:
        row.check(isa, weights, is_quantized(model))
        targets, where, build = row.own_targets, row.weights, row.open()
    written = partial(_written, name, where, floats, flash_limit, command, cut)
    promising = None
    if output_tolerance is not None:
        if is_quantized(model) or not check:
            why = "without a check" if not check else "as the model is a quantized one"
            raise Unsupported(f"output_tolerance: got {output_tolerance:g}; allowed: None {why}")
        promising = Promising(name, network(model, name), output_tolerance, floats)
    kept = [promising.kept(target) if promising else None for target in targets]
    with working("planning the network and packing its weights"):
        all_made = [written(*one, model) for one in zip(kept, targets)]
    made, target = all_made[-1], targets[-1]
    written = partial(written, kept[-1])
    if build is not None:
        with working(f"compiling the network for {host}"):
            contents = build(name, [one.program for one in all_made], command)
        made = made._replace(files=replace(made.files, contents=contents))
    if not check:
        return replace(made.files, comparison="not compared with the model")
    with working("comparing the network with its model"):
        try:
            said = _comparison(proto, model, made, written, promising)
            return replace(made.files, comparison=said)
        except Differs as problem:
            if isinstance(made.read, ByteNetwork) or cut is not None:
                raise
            node = first_wrong(
                model, problem.output, partial(_differs, input_shapes, written, target)
            )
            raise VerificationError(
                f"{problem}; the first node that differs is {node}"
            ) from problem


def _comparison(
    proto: Any,
    model: Model,
    made: _Made,
    written: Callable[..., _Made],
    promising: Promising | None = None,
) -> str:
    """How the files of a model compare with it; raises VerificationError if they differ."""
    codes = isinstance(made.read, ByteNetwork)
    optimized = isinstance(made.read, ByteNetwork) and is_optimized(made.read)
    error, products = made.files.predicted_error or 0.0, made.files.products
    if isinstance(made.read, Network) and made.read.pieces is not None:
        pieces = made.read.pieces
        model, products = loaded(proto, pieces.cut.sizes(pieces.times)), products * pieces.times
    claim = Claim(proto, model, error, products, codes, optimized, made.allowed)
    if promising is not None:
        claim = claim._replace(promised=promising.asked, unseen=promising.unseen)

    def twin() -> tuple[Program, float]:
        other = written(TARGETS["generic"], model)
        return other.program, other.files.predicted_error or 0.0

    return compared(claim, made.program, twin)


def _differs(input_shapes: Any, written: Callable[..., _Made], target: Target, proto: Any) -> bool:
    """Whether the C of a part of a model differs from it; False where there is none."""
    try:
        part = loaded(proto, input_shapes)
        _comparison(proto, part, written(target, part), written)
    except VerificationError:
        return True
    except WinogenError:  # as it has no layer
        return False
    return False


def _cut(
    proto: Any,
    pieces: Any,
    given: Any,
    host: str,
    algorithm: str,
    tolerance: float | None,
    output_tolerance: float | None,
) -> Cutting:
    """How signals of a model come in pieces; raises InvalidType and InvalidValue."""
    samples = arguments.whole("pieces", pieces, 1, "None or a positive number of samples")
    for what, got, allowed in (
        ("host", host, ("c",)),
        ("algorithm", algorithm, ("auto", "direct")),
        ("tolerance", tolerance, (None,)),
        ("output_tolerance", output_tolerance, (None,)),
    ):
        if got not in allowed:
            names = " or ".join(map(repr, allowed))
            raise InvalidValue(f"{what}: got {got!r}; allowed: {names} with pieces of signals")
    if is_quantized(Model(proto)):
        raise Unsupported(f"pieces: got {samples}; allowed: None, as the model is a quantized one")
    return Cutting.of(proto, samples, shapes_of(given))


class _Made(NamedTuple):
    """The files of a network, and what it was made of."""

    files: Files
    program: Program
    read: Network | ByteNetwork
    allowed: Mapping[str, float]  # how far outputs of floats behind codes may be off


def _written(
    name: str,
    weights: str,
    floats: dict[str, Any],
    flash_limit: int | None,
    command: str,
    cut: Cutting | None,
    kept: KeptPromise | None,
    target: Target,
    model: Model,
) -> _Made:
    """Return the files for a target; ``floats``: options of layers of floats."""
    tolerances = kept.tolerances if kept else None

    def planned(read: Network) -> Schedule:
        return schedule(read, target, tolerances=tolerances, **floats)

    if is_quantized(model):
        if floats["threads"] is not None:
            raise Unsupported(
                f"threads: got {CALLER!r}; allowed: None, as the model is a quantized one, whose C "
                "runs on one thread"
            )
        read = read_bytes(model, name)
        if not read.has_floats:
            usual = {"algorithm": "auto"}
            for what, given in floats.items():
                only = usual.get(what)
                if given != only:
                    raise InvalidValue(
                        f"{what}: got {given!r}; allowed: {only!r}, as the model is of bytes"
                    )
        writer = ByteWriter(name, read, target, command, flash_limit, planned, weights)
        files = _of_bytes(writer)
        ends, flagged, allowed = (read.inputs, read.outputs), writer.flagged, writer.allowed
        program = Program(name, files.contents, flagged, *ends, weights == "file")
        return _Made(files, program, read, allowed)
    if flash_limit is not None:
        raise InvalidValue(
            f"flash_limit: got {flash_limit}; allowed: None, as the model is not of bytes"
        )
    whole = network(model, name, cut=cut)
    plan = planned(whole)
    alone = FloatWriter(name, whole, plan, target, weights, command, kept)
    sizes = plan.arena_bytes, plan.least_bytes
    contents = alone.files()
    bytes_, error = alone.weight_bytes, plan.predicted_error
    files = Files(contents, *sizes, bytes_, error, *plan.products, kept=kept)
    return _Made(files, alone.program(contents), whole, {})


def _of_bytes(writer: ByteWriter) -> Files:
    contents = writer.files()
    sizes = writer.arena_bytes, writer.least_bytes, writer.weight_bytes
    return Files(contents, *sizes, writer.predicted_error, writer.products, writer.direct_products)
