"""bench: who computes a layer how fast: rivals and winogen in turns, and reports of it."""
