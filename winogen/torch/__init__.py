"""torch: convolution as PyTorch operators and modules; needs the extra `torch`.

`Conv2d` is an `nn.Conv2d` that computes with winogen's kernels, `conv2d` its function; those of one
and three axes, and transposed ones, likewise. All work under autograd, `torch.compile`,
`torch.export` and `torch.jit.trace`, on contiguous and channels-last tensors; what the kernels
don't take is left to torch. `replace` puts such layers in the place of a model's own, for training.

`optimize` makes a faster copy of a whole model, for inference, and `report` tells what became of
it. `torch.compile(model, backend="winogen")` does the same as often as a model is traced.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:  # pragma: no cover
    from winogen.extras import MissingPackage as _MissingPackage

    raise _MissingPackage(
        "winogen.torch: got no module torch; allowed: torch 2.6 or newer, as "
        "`pip install 'winogen[torch]'` installs it"
    ) from _error

from winogen.torch import processes as _processes  # noqa: F401
from winogen.torch.bundling import bundle
from winogen.torch.functional import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from winogen.torch.module import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from winogen.torch.optimize import optimize
from winogen.torch.replacing import replace
from winogen.torch.report import report

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "bundle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "optimize",
    "replace",
    "report",
]


def __dir__() -> list[str]:
    return __all__
