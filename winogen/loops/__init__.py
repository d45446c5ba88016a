"""loops: direct convolution as loop nests: problem, parameters → legal nest → passes.

`parameters` has the choices that make a nest and the rules of which go together, `build` makes the
nest, `passes` rewrite it. `registers` calculates which blocks suit the registers.
"""
