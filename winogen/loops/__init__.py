"""loops: direct convolution as loop nests that are data, and what can be calculated about them."""
