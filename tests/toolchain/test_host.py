"""host_target: the widest instruction set the CPU has, or the one that WINOGEN_ISA names."""

import archspec.cpu
import pytest

from winogen.errors import BuildError, InvalidValue
from winogen.records import TARGETS
from winogen.toolchain import host, host_target, host_targets


@pytest.fixture
def cpu(monkeypatch):
    """Pretend to run on the named microarchitecture."""

    def pretend(name: str) -> None:
        monkeypatch.setattr(host, "_cpu", lambda: archspec.cpu.TARGETS[name])

    return pretend


@pytest.mark.parametrize(
    "name, expected",
    [
        ("zen4", "avx512"),
        ("icelake", "avx512"),
        ("mic_knl", "avx2"),  # AVX-512 without its byte, word and 256-bit forms
        ("zen3", "avx2"),
        ("haswell", "avx2"),
        ("sandybridge", "sse2"),
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
    for name in ("avx512", "avx2", "sse2", "generic"):
        monkeypatch.setenv("WINOGEN_ISA", name)
        assert host_target() == TARGETS[name]


def test_an_unknown_name_is_refused_with_what_is_allowed(cpu, monkeypatch):
    cpu("haswell")
    monkeypatch.setenv("WINOGEN_ISA", "avx3")
    with pytest.raises(InvalidValue, match="got 'avx3'; allowed here: avx2, sse2, generic"):
        host_target()


def test_what_the_cpu_lacks_is_refused_with_the_reason(cpu, monkeypatch):
    cpu("haswell")
    monkeypatch.setenv("WINOGEN_ISA", "avx512")
    with pytest.raises(InvalidValue, match=r"'avx512', which this CPU \(haswell\) does not have"):
        host_target()


def test_a_target_without_an_entry_says_what_to_add(monkeypatch):
    monkeypatch.setitem(TARGETS, "neon32", TARGETS["generic"])
    with pytest.raises(BuildError, match=r"target: got 'neon32', of which _NEEDS in host.py"):
        host_targets()
