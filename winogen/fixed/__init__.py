"""fixed: F(m, r) in integers of a few bits, exact: its matrices, its programs, and their widths.

A device multiplies integers. The matrices of an algorithm become integers when the rows of B^T and
of G are multiplied by what they lack, and A^T by one scale: the algorithm computes ``scale * y``,
and not one bit is lost. `Integral` is that algorithm, `ranges` says how wide its values are.
"""

from winogen.fixed.adders import of_adders
from winogen.fixed.integral import Integral, integral
from winogen.fixed.ranges import Range, intervals, ranges, ranges_2d

__all__ = ["Integral", "Range", "integral", "intervals", "of_adders", "ranges", "ranges_2d"]
