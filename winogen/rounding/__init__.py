"""What rounding does to an algorithm: number formats, tiles in emulated arithmetic, errors
estimated and bounded. Nothing here compiles or measures; ``winogen.numerics`` does.

>>> from winogen.algebra import cook_toom
>>> from winogen.rounding.variance import estimate
>>> estimate(cook_toom(2, 3)).mean < estimate(cook_toom(4, 3)).mean
True
"""
