"""Which kernels to compile ahead: a few that keep all usual problems near their best time.

`problems` lists what is computed and every kernel that could do it, `greedy` chooses among the
kernels, and `listing` writes the choice for the build of wheels.
"""
