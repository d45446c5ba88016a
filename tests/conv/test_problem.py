"""Shapes and padding, by arithmetic alone: nothing here is compiled."""

import numpy as np
import pytest
from conv.reference import convolve
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.conv import Layer
from winogen.errors import InvalidType, InvalidValue


def layer(weight=(4, 2, 3, 3), **options):
    return Layer.of(weight, "float32", **options)


def test_padding_forms():
    assert layer(padding=1).padding == (1, 1, 1, 1)
    assert layer(padding=(1, 2)).padding == (1, 1, 2, 2)
    assert layer(padding=((1, 2), (3, 4))).padding == (1, 2, 3, 4)
    assert layer(padding=[[1, 2], 3]).padding == (1, 2, 3, 3)
    assert layer(padding="valid").padding == (0, 0, 0, 0)


@pytest.mark.parametrize("kernel", [(1, 1), (2, 3), (4, 5), (1, 8)])
@pytest.mark.parametrize("dilation", [1, 2, (3, 1)])
def test_same_keeps_the_size_and_pads_more_at_the_end(kernel, dilation):
    same = layer((4, 2, *kernel), padding="same", dilation=dilation)
    assert same.problem((1, 2, 9, 7)).output_shape == (1, 4, 9, 7)
    top, bottom, left, right = same.padding
    assert 0 <= bottom - top <= 1 and 0 <= right - left <= 1


def test_dilation_means_nothing_to_a_kernel_of_one():
    assert layer((4, 2, 1, 3), dilation=5).dilation == (1, 5)


def test_layouts_and_missing_batch_axis():
    assert layer().problem((5, 2, 8, 9)).output_shape == (5, 4, 6, 7)
    assert layer().problem((2, 8, 9)).output_shape == (4, 6, 7)
    assert layer(layout="NHWC").problem((5, 8, 9, 2)).output_shape == (5, 6, 7, 4)
    assert layer(layout="NHWC").problem((8, 9, 2)).output_shape == (6, 7, 4)
    assert layer().problem((0, 2, 8, 9)).output_shape == (0, 4, 6, 7)


def test_problems_are_values():
    assert layer(padding="same").problem((1, 2, 8, 9)) == layer(padding=1).problem((1, 2, 8, 9))
    assert hash(layer()) == hash(layer(padding="valid"))


def test_reflection_and_wrapping_have_their_limits():
    reflect = layer(padding=4, padding_mode="reflect")
    circular = layer(padding=4, padding_mode="circular")
    assert reflect.problem((1, 2, 5, 5)).output_shape == (1, 4, 11, 11)
    assert circular.problem((1, 2, 4, 4)).output_shape == (1, 4, 10, 10)
    with pytest.raises(InvalidValue, match="at most 3"):
        reflect.problem((1, 2, 5, 4))
    with pytest.raises(InvalidValue, match="at most 3"):
        circular.problem((1, 2, 3, 5))


@pytest.mark.parametrize("shape", [5, None, "abcd", (1, 2, 8, 9.0), (1, 2, True, 9)])
def test_a_shape_must_be_a_tuple_of_ints(shape):
    with pytest.raises(InvalidType, match="input_shape"):
        layer().problem(shape)


def test_sizes_that_no_machine_holds_are_refused():
    with pytest.raises(InvalidValue, match="input: .*bytes"):
        layer().problem((2**31 - 1, 2, 2**31 - 1, 2**31 - 1))
    with pytest.raises(InvalidValue, match="output: .*bytes"):
        layer(padding=2**31 - 1).problem((1, 2, 3, 3))


numbers = st.integers


@settings(max_examples=150)
@given(data=st.data())
def test_output_shape_is_that_of_the_reference(data):
    kernel = data.draw(st.tuples(numbers(1, 4), numbers(1, 4)))
    stride = data.draw(st.tuples(numbers(1, 3), numbers(1, 3)))
    dilation = data.draw(st.tuples(numbers(1, 3), numbers(1, 3)))
    padding = tuple(data.draw(st.tuples(numbers(0, 3), numbers(0, 3))) for _ in range(2))
    size = data.draw(st.tuples(numbers(1, 9), numbers(1, 9)))
    options = dict(stride=stride, dilation=dilation, padding=padding)
    fits = all(s + sum(p) >= d * (k - 1) + 1 for s, p, d, k in zip(size, padding, dilation, kernel))
    made = layer((4, 2, *kernel), groups=2, **options)
    if not fits:
        with pytest.raises(InvalidValue, match="weight: .*padded input"):
            made.problem((2, 4, *size))
        return
    wanted = convolve(np.zeros((2, 4, *size)), np.zeros((4, 2, *kernel)), groups=2, **options).shape
    problem = made.problem((2, 4, *size))
    assert problem.output_shape == wanted
    assert problem.direct_multiplications == np.prod(wanted) * 2 * kernel[0] * kernel[1]
