"""The demonstration: a photograph and a VGG-sized layer, by every algorithm, against float64."""

from .filters import Filter, banks
from .pictures import algorithm_sheet, filter_sheet, photograph
from .workload import Layer, Measurement, layers, measure

__all__ = [
    "Filter",
    "Layer",
    "Measurement",
    "algorithm_sheet",
    "banks",
    "filter_sheet",
    "layers",
    "measure",
    "photograph",
]
