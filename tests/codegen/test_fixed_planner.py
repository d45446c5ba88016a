"""The planner for integers: known answers, and each candidate's reason."""

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.codegen.fixed_planner import plan
from winogen.errors import InvalidValue
from winogen.fixed.ranges import Range

GAUSSIAN = "x, x - 1, x + 1, x^2 + 1, inf"


def made_of(candidate):
    algorithm = candidate.made.algorithm
    return ", ".join(map(str, algorithm.moduli or algorithm.points))


@pytest.mark.parametrize(
    "m, asked, origin, products, scale",
    [
        (2, {"channels": 3640}, "0, 1, -1, inf", 16, 4),
        (2, {"channels": 3641}, "x, x^2 + 1, inf", 25, 1),
        (2, {"channels": 3641, "sums": 64}, "0, 1, -1, inf", 16, 4),
        (4, {"channels": 227}, "0, 1, -1, 2, -2, inf", 36, 576),
        # 16 bits hold its inputs exactly, and 225 is divided out by its inverse.
        (4, {"channels": 3640}, "0, 1, -1, 1/2, -2, inf", 36, 900),
        (4, {"channels": 910, "wrapping": False}, GAUSSIAN, 49, 16),
    ],
)
def test_the_fewest_products_that_fit(m, asked, origin, products, scale):
    best = plan(m, 3, **asked).best
    assert made_of(best) == origin
    assert (best.products, best.made.scale**2, best.misfit) == (products, scale, "")


def test_wrapping_or_not_two_algorithms_hold_as_many_channels():
    two, four = plan(2, 3).best, plan(4, 3, operands=12, wrapping=False).best
    for one, v, u, channels in (
        (two, Range(-512, 510), Range(-1152, 1147), 3640),
        (four, Range(-2048, 2040), Range(-1152, 1149), 910),
    ):
        assert one.operands == (v, u)
        assert one.channels == one.channels_without_wrapping == channels
        assert max(-v.low, v.high) * max(-u.low, u.high) * channels < 2**31
        assert 2**31 <= max(-v.low, v.high) * max(-u.low, u.high) * (channels + 1)


def test_others_are_told_why():
    found = plan(3, 3, 16, channels=16, sums=64)
    assert found.best is None
    default = next(one for one in found.others if one.name == "f3_3_finite")
    assert "transformed inputs of 32 bits, transformed filters of 27 bits" in found.reason(default)
    assert all(loose >= exact.bits for loose, exact in zip(default.interval_bits, default.operands))
    few = plan(2, 3, 8, 4, channels=40_000, sums=32)  # filters of four bits
    assert few.best is None or few.best.channels >= 40_000
    assert made_of(few.best) == "0, 1, -1, inf"


def test_the_command_line():
    def run(*words):
        done = CliRunner().invoke(app, ["fixed", *words])
        return done.exit_code, done.output

    code, text = run("2", "3", "--channels", "3641")
    assert code == 0 and "winogen derive 2 3 --moduli 'x,x^2+1,inf'" in text
    assert "sums of 32 bits hold 3640 channels" in text
    assert run("2", "3", "--bits", "8,1")[1].startswith("winogen: filter_bits: got 1; allowed: 2")
    assert run("2", "3", "--bits", "1") == (2, "winogen: bits: got 1; allowed: 2 .. 32\n")


def test_nonsense_is_refused():
    for asked in ({"m": 1}, {"r": 1}, {"m": 12, "r": 12}, {"channels": 0}, {"sums": 1}):
        name = next(iter(asked)) if len(asked) == 1 else "m + r - 1"
        with pytest.raises(InvalidValue) as raised:
            plan(**{"m": 2, "r": 3, **asked})
        assert str(raised.value).startswith(f"{name}: got")
