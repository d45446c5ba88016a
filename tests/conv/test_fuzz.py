"""A slice of the fuzzing in `fuzz.py`, and that it would notice."""

import pytest
from conv import fuzz

import winogen
from winogen.kernels import algorithms, general
from winogen.toolchain import host_targets

# Each instruction set has cases of its own: what is wrong is seldom so with one of them alone.
TURNS = [(target.name, turn % 4 * 500) for turn, target in enumerate(host_targets())]


@pytest.mark.thorough
def test_degenerate_problems_are_computed_right():
    wrong = list(fuzz.failures(20261122, range(50)))
    assert not wrong, wrong[0][1]


@pytest.mark.thorough
@pytest.mark.draws
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("isa, begin", TURNS)
def test_they_are_with_every_instruction_set(isa, begin, part, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", isa)
    wrong = list(fuzz.failures(20261122, range(begin + part, begin + 500, 5)))
    assert not wrong, wrong[0][1]


def test_a_case_follows_from_its_seed_and_index():
    assert fuzz.case_of(3, 7) == fuzz.case_of(3, 7) != fuzz.case_of(3, 8)


def test_cases_are_degenerate_in_every_way():
    cases = [fuzz.case_of(1, index) for index in range(600)]
    assert any(case.image[1:] == (1, 1) for case in cases)
    assert any(abs(before - after) > 8 for case in cases for before, after in case.padding)
    assert any(case.stride[0] > case.weight[2] for case in cases)
    assert any(case.groups == case.weight[0] > 1 == case.weight[1] for case in cases)
    assert any(case.groups > 1 and case.weight[0] > case.groups for case in cases)
    # Kernels of one layer have tests of their own: each case would compile another.
    many = {name for name in algorithms() if not general(name).one_layer}
    assert {case.asked["algorithm"] for case in cases} == {"auto", *many}


@pytest.mark.parametrize("where", ("in the output", "beside it"))
def test_a_wrong_result_is_noticed(where, monkeypatch):
    honest = winogen.conv2d

    def wrong(*args, out, **options):
        honest(*args, out=out, **options)
        memory = out.base if where == "beside it" else out.reshape(-1)
        memory[-1] += 1
        return out

    monkeypatch.setattr(winogen, "conv2d", wrong)
    _, what = next(fuzz.failures(1, range(10)))
    assert "AssertionError" in what and "Case(" in what
