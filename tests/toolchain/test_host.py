"""host_target: the widest instruction set the CPU has, or the one that WINOGEN_ISA names."""

from dataclasses import replace

import archspec.cpu
import pytest

from winogen.errors import InvalidValue
from winogen.records import EXTENSIONS, TARGETS
from winogen.toolchain import host, host_target, host_targets


@pytest.fixture
def cpu(monkeypatch):
    """Pretend to run on the named microarchitecture."""

    def pretend(name: str) -> None:
        monkeypatch.setattr(host, "_cpu", lambda: archspec.cpu.TARGETS[name])
        monkeypatch.setattr(host, "_reported", frozenset)
        monkeypatch.setattr(host, "_emitted", lambda cc, mode: frozenset(EXTENSIONS))
        monkeypatch.setattr(host, "_permitted", lambda: True)

    return pretend


@pytest.mark.parametrize(
    "name, expected",
    [
        ("zen4", "avx512"),
        ("icelake", "avx512"),
        ("mic_knl", "avx2"),  # AVX-512 without its byte, word and 256-bit forms
        ("zen3", "avx2"),
        ("haswell", "avx2"),
        ("sandybridge", "sse4.2"),
        ("x86_64", "sse2"),
        ("neoverse_n1", "neon"),
        ("aarch64", "neon"),
        ("power9le", "generic"),
    ],
)
def test_the_widest_that_the_cpu_has(cpu, name, expected):
    cpu(name)
    assert host_target().name == expected


def test_this_cpu_has_at_least_the_generic_target():
    assert host_target() == host_targets()[0]
    assert host_targets()[-1].name == "generic"


def test_the_environment_chooses_among_what_the_cpu_has(cpu, monkeypatch):
    cpu("zen4")
    for name in ("avx512", "avx2", "sse4.2", "sse2", "generic"):
        monkeypatch.setenv("WINOGEN_ISA", name)
        chosen = host_target()
        assert replace(chosen, extensions=frozenset(), core="") == TARGETS[name]


# The oldest release of archspec that is allowed does not know it.
AMX = {"amx"} if "amx_int8" in archspec.cpu.TARGETS["sapphirerapids"] else set()


@pytest.mark.parametrize(
    "name, target, extensions",
    [
        ("zen4", "avx512", {"vnni", "f16c", "vbmi", "bf16"}),
        ("sapphirerapids", "avx512", {"vnni", "f16c", "vbmi", "bf16"} | AMX),
        ("skylake_avx512", "avx512", {"f16c"}),
        ("haswell", "avx2", {"f16c"}),
        ("neoverse_n1", "neon", {"dotprod", "fp16"}),
        ("neoverse_v1", "neon", {"dotprod", "i8mm", "fp16"}),
        ("x86_64", "sse2", set()),
    ],
)
def test_the_extensions_that_the_cpu_has(cpu, name, target, extensions):
    cpu(name)
    assert host_target().name == target
    assert host_target().extensions == extensions


def test_a_compiler_that_is_too_old_leaves_an_extension_out(cpu, monkeypatch):
    cpu("zen4")
    only = frozenset(one for one in EXTENSIONS if one.name == "f16c")
    monkeypatch.setattr(host, "_emitted", lambda cc, mode: only)
    assert host_target().extensions == {"f16c"}


def test_tiles_that_the_kernel_does_not_permit_are_left_out(cpu, monkeypatch):
    cpu("sapphirerapids")
    monkeypatch.setattr(host, "_permitted", lambda: False)
    assert host_target().extensions == {"vnni", "f16c", "vbmi", "bf16"}


def test_what_the_cpu_reports_counts_where_its_kind_need_not_have_it(cpu, monkeypatch):
    cpu("icelake")
    monkeypatch.setattr(host, "_reported", lambda: frozenset({"avx_vnni"}))
    assert "avxvnni" in host_targets()[1].extensions


def test_the_environment_leaves_extensions_out(cpu, monkeypatch):
    cpu("zen4")
    monkeypatch.setenv("WINOGEN_ISA", "avx512-vnni")
    assert host_target().extensions == {"f16c", "vbmi", "bf16"}
    monkeypatch.setenv("WINOGEN_ISA", "avx512+fp16")
    with pytest.raises(
        InvalidValue, match="lacks fp16; allowed here: avx512 with bf16, f16c, vbmi, vnni"
    ):
        host_target()
    monkeypatch.setenv("WINOGEN_ISA", "avx2+vnni")
    with pytest.raises(
        InvalidValue, match="allowed: avx2 with . or - before each of avxvnni, f16c"
    ):
        host_target()


def test_an_unknown_name_is_refused_with_what_is_allowed(cpu, monkeypatch):
    cpu("haswell")
    monkeypatch.setenv("WINOGEN_ISA", "avx3")
    with pytest.raises(InvalidValue, match="got 'avx3'; allowed here: avx2, sse4.2, sse2, generic"):
        host_target()


def test_what_the_cpu_lacks_is_refused_with_the_reason(cpu, monkeypatch):
    cpu("haswell")
    monkeypatch.setenv("WINOGEN_ISA", "avx512")
    with pytest.raises(InvalidValue, match=r"'avx512', which this CPU \(haswell\) does not have"):
        host_target()


@pytest.fixture
def zen4(monkeypatch):
    """Run on a zen4, as it is detected."""
    known = archspec.cpu.TARGETS["zen4"]
    monkeypatch.setattr(archspec.cpu, "host", lambda: known)
    monkeypatch.setattr(host, "_reported", lambda: frozenset(known.features))
    monkeypatch.setattr(host, "_emitted", lambda cc, mode: frozenset(EXTENSIONS))
    host._named.cache_clear()
    yield
    host._named.cache_clear()


@pytest.mark.parametrize(
    "name, expected, extensions",
    [
        ("zen4", "avx512", {"vnni", "f16c", "vbmi", "bf16"}),
        ("zen3", "avx2", {"f16c"}),
        ("nehalem", "sse4.2", set()),
        ("sapphirerapids", "avx512", {"vnni", "f16c", "vbmi", "bf16"}),  # no AMX on this CPU
    ],
)
def test_a_cpu_is_taken_for_another(zen4, monkeypatch, name, expected, extensions):
    monkeypatch.setenv("WINOGEN_CPU", name)
    assert (host_target().name, host_target().extensions) == (expected, extensions)
    monkeypatch.setenv("WINOGEN_ISA", "generic")
    assert host_target().name == "generic"


def test_a_cpu_taken_for_a_better_one_keeps_to_what_it_has(zen4, monkeypatch):
    monkeypatch.setattr(host, "_reported", lambda: frozenset({"sse2", "avx", "avx2"}))
    monkeypatch.setenv("WINOGEN_CPU", "zen4")
    assert [target.name for target in host_targets()] == ["sse2", "generic"]


@pytest.mark.parametrize(
    "name, hidden, expected",
    [
        ("zen4", set(), "zen4"),
        ("zen5", set(), "zen5"),
        ("zen3", set(), ""),
        ("icelake", set(), "skylake_avx512"),
        ("zen5", {"rdseed", "pku", "movdiri"}, "zen5"),  # what hypervisors hide
        ("zen4", {"rdseed", "pku", "flush_l1d"}, "zen4"),
        ("zen5", {"avx512_vp2intersect"}, "zen4"),
        ("cascadelake", {"rdseed", "clflushopt", "pku"}, "skylake_avx512"),
    ],
)
def test_the_core_is_known_by_its_vector_instructions(monkeypatch, name, hidden, expected):
    known = archspec.cpu.TARGETS.get(name)
    if known is None:
        pytest.skip(f"archspec does not know {name} yet")
    seen = archspec.cpu.Microarchitecture("", [], known.vendor, set(known.features) - hidden, {}, 0)
    fallback = archspec.cpu.TARGETS["x86_64"] if hidden else known
    monkeypatch.setattr(host, "_cpu", lambda: fallback)
    monkeypatch.setattr(host, "_detected", lambda: seen)
    assert host._core() == expected


@pytest.mark.parametrize("name", ("zen99", "neoverse_n1"))
def test_a_cpu_that_cannot_be_meant_is_refused(zen4, monkeypatch, name):
    monkeypatch.setenv("WINOGEN_CPU", name)
    with pytest.raises(InvalidValue, match=f"WINOGEN_CPU: got '{name}'; allowed: .* of x86_64"):
        host_target()
