"""winogen synthesizes fast convolution: exact algorithms, short transforms, readable C, conv2d.

>>> import winogen
>>> winogen.cook_toom(2, 3).verify()
True
"""

from importlib import import_module

# Public name -> the module that defines it. Loaded on first use, so that `import winogen` stays
# light: sympy comes only with the algebra, numpy and the C build only with convolution.
_PUBLIC = {
    "cook_toom": "winogen.algebra",
    "winograd": "winogen.algebra",
    "BilinearAlgorithm": "winogen.algebra",
    "conv2d": "winogen.conv",
    "Conv2d": "winogen.conv",
    "Plan": "winogen.conv",
    "WinogenError": "winogen.errors",
}
__all__ = sorted(_PUBLIC)
__version__ = "0.1.0"


def __getattr__(name):
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'winogen' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_PUBLIC])
