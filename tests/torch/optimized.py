"""Small nets for tests of optimized models, and what these run."""

from alike import tensors
from graph import torch_nets as nets

from winogen.torch.segment_op import SegmentModule


def made(net):
    """Return a net of `torch_nets` whose normalizations have seen numbers."""
    return nets.normalized(net())


def same(ours, theirs, tolerance=1e-5):
    """Assert that all tensors in two outputs are the same but for rounding."""
    for one, other in zip(tensors(ours), tensors(theirs), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert (one - other).abs().max() <= tolerance * other.abs().max()


def inside(model):
    """Return what runs: the body of segments, or the copy itself."""
    return model.winogen_model if model.winogen_fast is None else model.winogen_fast.body


def segments(model):
    """Return the segments that an optimized model runs."""
    return [module for module in inside(model).modules() if isinstance(module, SegmentModule)]
