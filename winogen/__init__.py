"""winogen synthesizes fast convolution: exact algorithms, short transforms, readable C, conv2d.

>>> import winogen
>>> winogen.cook_toom(2, 3).verify()
True
"""

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of

if TYPE_CHECKING:  # for editors and type checkers; at run time see _PUBLIC
    from winogen import hardware as hardware
    from winogen.algebra import BilinearAlgorithm as BilinearAlgorithm
    from winogen.algebra import cook_toom as cook_toom
    from winogen.algebra import winograd as winograd
    from winogen.codegen.textbook import programs as programs
    from winogen.conv import Conv1d as Conv1d
    from winogen.conv import Conv2d as Conv2d
    from winogen.conv import Conv3d as Conv3d
    from winogen.conv import ConvTranspose1d as ConvTranspose1d
    from winogen.conv import ConvTranspose2d as ConvTranspose2d
    from winogen.conv import ConvTranspose3d as ConvTranspose3d
    from winogen.conv import Plan as Plan
    from winogen.conv import conv1d as conv1d
    from winogen.conv import conv2d as conv2d
    from winogen.conv import conv3d as conv3d
    from winogen.conv import conv_transpose1d as conv_transpose1d
    from winogen.conv import conv_transpose2d as conv_transpose2d
    from winogen.conv import conv_transpose3d as conv_transpose3d
    from winogen.conv.flytes import narrow as narrow
    from winogen.conv.flytes import widen as widen
    from winogen.conv.gemm import Gemm as Gemm
    from winogen.conv.gemm import gemm as gemm
    from winogen.conv.pictures import filter2d as filter2d
    from winogen.conv.quantized import QConv2d as QConv2d
    from winogen.errors import WinogenError as WinogenError
    from winogen.rounding.tolerances import tolerance as tolerance
    from winogen.typing import Activation as Activation

# Public name -> the module that defines it. Loaded on first use, so that `import winogen` stays
# light: sympy comes only with the algebra, numpy and the C build only with convolution.
_PUBLIC = {
    "cook_toom": "winogen.algebra",
    "winograd": "winogen.algebra",
    "BilinearAlgorithm": "winogen.algebra",
    "programs": "winogen.codegen.textbook",
    "conv1d": "winogen.conv",
    "conv2d": "winogen.conv",
    "conv3d": "winogen.conv",
    "Conv1d": "winogen.conv",
    "Conv2d": "winogen.conv",
    "Conv3d": "winogen.conv",
    "conv_transpose1d": "winogen.conv",
    "conv_transpose2d": "winogen.conv",
    "conv_transpose3d": "winogen.conv",
    "ConvTranspose1d": "winogen.conv",
    "ConvTranspose2d": "winogen.conv",
    "ConvTranspose3d": "winogen.conv",
    "narrow": "winogen.conv.flytes",
    "widen": "winogen.conv.flytes",
    "gemm": "winogen.conv.gemm",
    "Gemm": "winogen.conv.gemm",
    "filter2d": "winogen.conv.pictures",
    "QConv2d": "winogen.conv.quantized",
    "hardware": "winogen.hardware",
    "Plan": "winogen.conv",
    "tolerance": "winogen.rounding.tolerances",
    "WinogenError": "winogen.errors",
    "Activation": "winogen.typing",
}
__all__ = sorted(_PUBLIC)
__version__ = "0.1.0"

if not TYPE_CHECKING:  # who checks types would let any name pass
    __getattr__ = attribute_of(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return __all__
