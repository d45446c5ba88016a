"""The solvers that there are, in the order in which they are asked: to add one, import it here."""

from winogen.conv.execute import Kernels
from winogen.conv.folded import Folding
from winogen.conv.fourier_tiles import FourierTiles
from winogen.conv.separated import TwoPasses
from winogen.conv.solver import chosen, looked, register, solvers
from winogen.conv.spectral import Fourier
from winogen.conv.widened import Widening

__all__ = ["chosen", "looked", "solvers"]

for _solver in (Folding(), Kernels(), Fourier(), FourierTiles(), TwoPasses(), Widening()):
    register(_solver)
