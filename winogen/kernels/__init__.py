"""kernels: the register of all variants, and what every one of them says of itself.

To add a variant: a file here with a subclass of `Variant`, its template in ``csrc/kernels/``, and a
line below. Within an algorithm the first variant that applies is taken, so special ones come first.
"""

from winogen.kernels.depthwise_channels import DepthwiseChannels
from winogen.kernels.depthwise_in_place import DepthwiseInPlace
from winogen.kernels.depthwise_planes import DepthwisePlanes
from winogen.kernels.depthwise_rows import DepthwiseRows
from winogen.kernels.depthwise_strip import DepthwiseStrip
from winogen.kernels.direct import Direct
from winogen.kernels.direct_float16 import DirectFloat16
from winogen.kernels.few_channels import FewChannels
from winogen.kernels.few_filters import FewFilters
from winogen.kernels.im2col import Im2col
from winogen.kernels.mcmr import Mcmr
from winogen.kernels.mcmr_float16 import McmrFloat16
from winogen.kernels.mcmr_int8 import McmrInt8
from winogen.kernels.mcmr_int16 import McmrInt16
from winogen.kernels.patches import Patches
from winogen.kernels.pixels import Pixels
from winogen.kernels.pixels_float16 import PixelsFloat16
from winogen.kernels.planes import Planes
from winogen.kernels.pointwise import Pointwise
from winogen.kernels.variant import (
    FFT,
    Buffer,
    Cycles,
    Variant,
    algorithms,
    algorithms_beside,
    assign,
    family,
    first_that_applies,
    general,
    is_tiled,
    named,
    register,
    summation,
    unregister,
    variants,
)
from winogen.kernels.winograd1d import Winograd1d
from winogen.kernels.winograd1d_int16 import Winograd1dInt16
from winogen.kernels.winograd2d import Winograd2d
from winogen.kernels.winograd2d_depthwise import Winograd2dDepthwise
from winogen.kernels.winograd2d_filters import Winograd2dFilters
from winogen.kernels.winograd2d_tiles import Winograd2dTiles
from winogen.kernels.work import Stack, Work, blocks

for _variant in (
    DepthwiseRows(),
    DepthwiseInPlace(),
    DepthwiseStrip(),
    DepthwiseChannels(),
    DepthwisePlanes(),
    Planes(),
    Patches(),
    Pixels(),
    FewFilters(),
    FewChannels(),
    Pointwise(),
    PixelsFloat16(),
    DirectFloat16(),
    Direct(),
    Im2col(),
    Winograd2dDepthwise(),
    Winograd2dTiles(),
    Winograd2dFilters(),
    Winograd2d(),
    Winograd1dInt16(),
    Winograd1d(),
    McmrInt16(),
    McmrInt8(),
    McmrFloat16(),
    Mcmr(),
):
    register(_variant)

__all__ = [
    "FFT",
    "Buffer",
    "Cycles",
    "Stack",
    "Variant",
    "Work",
    "algorithms",
    "algorithms_beside",
    "assign",
    "blocks",
    "family",
    "first_that_applies",
    "general",
    "is_tiled",
    "named",
    "register",
    "summation",
    "unregister",
    "variants",
]
