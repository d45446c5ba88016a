"""The C of a kernel, from its spec and the templates in ``csrc/``.

A kernel takes all sizes at run time, so one compiled kernel serves every layer of its kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from winogen import resources
from winogen.codegen.calls import used_only
from winogen.kernels.kind import Spec, declaration
from winogen.kernels.spec import KernelSpec

# The modules of `winogen.codegen` whose `text` fills in the template of each kind. Kernels at hand
# need none of them.
_TEXTS = {
    "KernelSpec": "convolution",
    "GemmSpec": "gemm",
    "GradientSpec": "gradient",
    "FourierSpec": "fourier",
    "QuantizedSpec": "quantized",
    "RealsSpec": "quantized",
}


def render(
    spec: Spec,
    prefix: str = "winogen",
    call: Mapping[str, Any] | None = None,
    alone: bool = False,
) -> str:
    """Return the C of a kernel: self-contained, its functions named ``prefix``_…

    ``call``: the fields of the only call that it is for. By default it serves any, as its struct
    says, and has no function that nothing in it uses. That of one call has them still, as what is
    written around it decides. ``alone``: whether threads are the caller's, each of whom runs a
    share of that call.

    >>> from winogen.kernels import named
    >>> from winogen.records import TARGETS, Precision
    >>> precision, target = Precision.of("float32"), TARGETS["generic"]
    >>> tuning = named("direct").tuning(target, precision)
    >>> text = render(KernelSpec("direct", "NCHW", precision, target, tuning), "layer")
    >>> "size_t layer_workspace_bytes(const winogen_conv *p, int threads)" in text
    True
    """
    text = str(_module(spec).text(spec, prefix, call, alone))
    return used_only(text) if call is None else text


def _module(spec: Spec) -> Any:
    return import_module(f"winogen.codegen.{_TEXTS[type(spec).__name__]}")


def parts(spec: Spec) -> dict[str, str]:
    """Return what a kernel has in common with others, by name: C that is compiled once for all.

    The text of the kernel has it as well, and leaves it out where WINOGEN_APART is defined.
    """
    if not isinstance(spec, KernelSpec) or not spec.apart:
        return {}
    return {name: used_only(text) for name, text in _module(spec).shared(spec).items()}


def cdef(spec: Spec, prefix: str = "winogen") -> str:
    """Return the C declarations of a kernel library for cffi."""
    profile = f"extern int64_t {prefix}_profile[4];" if spec.profile else ""
    packed = ""
    if spec.packs:
        arrays = ", ".join(f"const void *{name}" for name in spec.packs)
        packed = f"""
size_t {prefix}_packed_bytes(const winogen_conv *p);
void {prefix}_pack(const winogen_conv *p, {arrays}, void *packed, int threads);"""
    return f"""
{declaration(spec.fields, spec.rank)}
typedef struct {{
    const winogen_conv *p;
    const void *{", *".join(spec.inputs)};
    void *{spec.output}, *workspace;
}} {prefix}_call;{packed}
size_t {prefix}_workspace_bytes(const winogen_conv *p, int threads);
void {prefix}_part(const {prefix}_call *c, int64_t phase, int64_t part, int64_t member);
void {prefix}_run_some(const {prefix}_call *c, int64_t first, int64_t last, int threads);
void {prefix}_run(const {prefix}_call *c, int threads);
{profile}
"""


def recipe(spec: Spec) -> str:
    """Return a digest of everything in the text of a kernel, for callers that keep texts."""
    transforms = [(t.header, t.texts) for t in spec.transforms if t]
    folder = spec.entry.folder if isinstance(spec, KernelSpec) else None
    code = renderer_digest(), folder and _digest(folder)
    return hashlib.sha256(repr((code, spec, transforms)).encode()).hexdigest()[:32]


@cache
def renderer_digest() -> str:
    """A digest of the templates and of the code that fills them in."""
    folders = map(resources.package().joinpath, ("codegen", "kernels", "records"))
    return _digest(resources.folder("csrc"), *folders)


@cache
def _digest(*folders: Path) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        templates = (path for path in folder.rglob("*.*") if path.suffix in (".j2", ".h", ".c"))
        for path in sorted(templates) + sorted(folder.glob("*.py")):
            digest.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()
