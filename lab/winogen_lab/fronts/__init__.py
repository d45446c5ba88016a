"""Error against products: the front of all algorithms, and in which order rows are summed."""
