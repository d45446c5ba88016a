"""Direct convolution as loop nests that are data, and the algorithm "loops" to run them.

`parameters` has the choices that make a nest and the rules for their combinations, `build` makes
the nest, `passes` rewrite it, `text` prints it as C and `variant` registers it as an algorithm. The
other modules look at nests: count them, run them in Python, print them, search for the fastest.
"""
