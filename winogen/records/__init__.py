"""records: plain data that every station may read; nothing here computes or asks the system."""

from winogen.records.activations import ACTIVATIONS
from winogen.records.axis import AXES, Axis, Strides
from winogen.records.costs import Costs, costs_of
from winogen.records.epilogue import Epilogue
from winogen.records.machine import Machine
from winogen.records.points import Points
from winogen.records.precision import (
    ARRAY_TYPES,
    CODE_TYPE,
    COMPUTED_TYPES,
    FILTER_TYPES,
    FLYTE_TYPES,
    FLYTES,
    NARROW_TYPES,
    NUMBERS,
    PIXEL_TYPES,
    PRODUCT_FORMATS,
    PRODUCT_TYPES,
    TRIED_FILTER_TYPES,
    Precision,
)
from winogen.records.target import EXTENSIONS, TARGETS, Extension, Target, spelled
from winogen.records.tuning import Sizes, Tuning

__all__ = [
    "ACTIVATIONS",
    "ARRAY_TYPES",
    "AXES",
    "CODE_TYPE",
    "COMPUTED_TYPES",
    "EXTENSIONS",
    "FILTER_TYPES",
    "FLYTES",
    "FLYTE_TYPES",
    "NARROW_TYPES",
    "NUMBERS",
    "PIXEL_TYPES",
    "PRODUCT_FORMATS",
    "PRODUCT_TYPES",
    "TARGETS",
    "TRIED_FILTER_TYPES",
    "Axis",
    "Costs",
    "Epilogue",
    "Extension",
    "Machine",
    "Points",
    "Precision",
    "Sizes",
    "Strides",
    "Target",
    "Tuning",
    "costs_of",
    "spelled",
]
