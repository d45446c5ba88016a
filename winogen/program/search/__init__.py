"""The search for short programs: networks of a matrix, their scales, lowering, polishing."""
