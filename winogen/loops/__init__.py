"""loops: direct convolution as loop nests that are data: problem, parameters → legal nest → passes."""
