"""The demonstration: a VGG-sized layer and a photograph, by every algorithm, against float64."""

from winogen.demo.filters import Filter, banks
from winogen.demo.pictures import algorithm_sheet, filter_sheet, photograph
from winogen.demo.workload import Layer, TableRow, layers, measure

__all__ = [
    "Filter",
    "Layer",
    "TableRow",
    "algorithm_sheet",
    "banks",
    "filter_sheet",
    "layers",
    "measure",
    "photograph",
]
