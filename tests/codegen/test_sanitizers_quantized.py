"""The C of convolutions of bytes: no warnings, and nothing undefined."""

from dataclasses import replace

import pytest
from codegen.sanitized import EMITTABLE, no_warning
from codegen.sanitized_quantized import check, kinds

from winogen.codegen.render import render
from winogen.kernels.dots import DOTS
from winogen.toolchain import host_targets


def one(target, dot):
    """A case; those with instructions of their own take long."""
    quick = dot.name == "plain"
    marks = () if quick else pytest.mark.thorough
    return pytest.param(target, dot, id=f"{target.name}-{dot.name}", marks=marks)


EMITTED = [one(target, dot) for target in EMITTABLE for dot in DOTS if dot.target == target.name]
RUN = [
    one(target, dot)
    for target in host_targets()
    for dot in DOTS
    if dot.target == target.name and target.extensions.issuperset(dot.extensions)
]


@pytest.mark.parametrize("target, dot", EMITTED)
def test_no_kernel_makes_a_warning(target, dot, tmp_path):
    texts = {}
    for spec in kinds(target, dot):
        if spec.algorithm != "depthwise":  # which have instructions of their own
            assert (spec.dot.target, spec.dot.extensions) == (dot.target, dot.extensions)
        text = render(spec)
        assert max(map(len, text.splitlines())) <= 100
        texts[f"{spec.name}.c"] = text
    no_warning(tmp_path, texts, spec.target)


@pytest.mark.parametrize("target, dot", RUN)
def test_no_kernel_leaves_its_arrays_or_the_language(target, dot, tmp_path):
    for spec in (replace(kind, rows=3) for kind in kinds(target, dot)):
        check(tmp_path, spec)
