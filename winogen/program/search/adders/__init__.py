"""The search for programs of adders and shifts.

A set of linear forms, up to shifts and signs, is a program if each of them is the sum of two
shifted others. So the search is one for small sets: `sharing` makes them of the signed digits of a
matrix, `splitting` gives it rows that differ little from one another, `exchange` swaps members of a
set for others, and `emit` makes the program, with the signs that save negations.
"""
