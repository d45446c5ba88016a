"""A model as the files of a network: of floats, or of bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

from winogen.codegen.standalone import check_name, name_after
from winogen.conv import arguments
from winogen.errors import InvalidType, InvalidValue
from winogen.files import check_regular, replace_file
from winogen.network.bytes_reading import is_quantized, read_bytes
from winogen.network.bytes_writing import ByteWriter
from winogen.network.float_writing import FloatWriter
from winogen.network.reading import loaded, network
from winogen.network.schedule import schedule
from winogen.onnx.loading import naming_damage
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

    def __str__(self) -> str:
        text = (
            f"arena {self.arena_bytes:,} bytes, {self.least_arena_bytes:,} of them at one time; "
            f"weights {self.weight_bytes:,} bytes\n"
            f"multiplications {self.products:,}"
        )
        exact = self.predicted_error is None
        if not exact or self.products != self.direct_products:
            text += f" (direct: {self.direct_products:,})"
        if exact:
            return text
        return f"{text}; predicted error {self.predicted_error:.1e} of the largest output"

    def write(self, folder: str | Path) -> list[Path]:
        """Write all files into a folder, which is made; return their paths.

        Each is written whole or not at all. Raises InvalidValue and OSError.
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        for name in self.contents:
            check_regular("output", path / name, "files that are not there yet, or regular ones")
        return [replace_file(path / name, data) for name, data in self.contents.items()]


@naming_damage
def generate(
    model_or_path: Any,
    *,
    name: str | None = None,
    isa: str | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    weights: str = "const",
    tolerance: float | None = None,
    algorithm: str = "auto",
    workspace_limit: int | None = None,
    filter_dtype: str | None = None,
    flash_limit: int | None = None,
    command: str = "winogen.network.generate",
) -> Files:
    """Return a model as C that needs no part of winogen, no allocator and no threads.

    ``model_or_path``: an onnx.ModelProto of float32, or a quantized one, or a path. ``name``: the
    prefix of files and functions, by default the name of the model's file, and "net" of a proto.
    ``isa``: an instruction set of `TARGETS` with its extensions, or a microcontroller, by default
    this CPU's. ``input_shapes``: sizes of inputs, where the model leaves them open; an open
    batch is 1.
    ``weights``: one of `WEIGHTS`. ``tolerance``, ``algorithm``, ``workspace_limit``: of every
    layer of floats, as in `conv2d`.
    ``filter_dtype``: None, or one of `FILTERS`, in which packed filters are stored; they take half
    the bytes, and are widened when they are read.
    ``flash_limit``: of a quantized model, how many bytes its constants may take: then 3x3 layers
    are computed by Winograd in integers, with the same codes, as far as their transformed filters
    find room. None: all are direct, whose constants are smallest.
    ``command``: what the files say regenerates them.

    Nothing is written until all is there. Raises MissingPackage without the extra `onnx`,
    InvalidType, InvalidValue that names each node that is not generated, Unsupported, and
    BuildError: packing the filters takes a compiler, or kernels at hand.
    """
    for what, text in (("isa", isa), ("command", command)):
        if not isinstance(text, (str, NoneType)):
            raise InvalidType(f"{what}: got {type(text).__name__}; allowed: a text")
    if name is None:
        name = name_after(model_or_path) if isinstance(model_or_path, (str, Path)) else "net"
    check_name(f"{check_name(name, _LONGEST)}_00")
    arguments.choice("weights", weights, WEIGHTS)
    target = host_target() if isa is None else arguments.target(isa)
    if tolerance is not None:
        arguments.positive("tolerance", tolerance, "None or a positive number, as 1e-6")
    if filter_dtype is not None:
        arguments.choice("filter_dtype", filter_dtype, FILTERS)
    if flash_limit is not None:
        arguments.whole("flash_limit", flash_limit, 1, "None or a number of bytes")
    planned = partial(
        schedule,
        target=target,
        tolerance=tolerance,
        algorithm=algorithm,
        workspace_limit=workspace_limit,
        filter_dtype=filter_dtype,
    )
    model = loaded(model_or_path, input_shapes)
    if is_quantized(model):
        read_codes = read_bytes(model, name)
        if not read_codes.has_floats:
            floats = {
                "tolerance": (tolerance, None),
                "algorithm": (algorithm, "auto"),
                "workspace_limit": (workspace_limit, None),
                "filter_dtype": (filter_dtype, None),
            }
            for what, (given, only) in floats.items():
                if given != only:
                    raise InvalidValue(
                        f"{what}: got {given!r}; allowed: {only!r}, as the model is of bytes"
                    )
        writer = ByteWriter(name, read_codes, target, command, flash_limit, planned, weights)
        return _of_bytes(writer)
    if flash_limit is not None:
        raise InvalidValue(
            f"flash_limit: got {flash_limit}; allowed: None, as the model is not of bytes"
        )
    read = network(model, name)
    plan = planned(read)
    floats_alone = FloatWriter(name, read, plan, target, weights, command)
    return Files(
        floats_alone.files(),
        plan.arena_bytes,
        plan.least_bytes,
        floats_alone.weight_bytes,
        plan.predicted_error,
        *plan.products,
    )


def _of_bytes(writer: ByteWriter) -> Files:
    contents = writer.files()
    sizes = writer.arena_bytes, writer.least_bytes, writer.weight_bytes
    return Files(contents, *sizes, writer.predicted_error, writer.products, writer.direct_products)
