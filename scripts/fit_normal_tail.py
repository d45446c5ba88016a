"""Print the polynomials of the normal tail in winogen/codegen/functions.py, and their errors.

The tail 1 - Phi(a) is exp(-a^2/2) m(a). In u = (a - 4) / (a + 4), (a + 4) m(a) is close to a
polynomial, here the one through its values at Chebyshev's points.
"""

import mpmath as mp

mp.mp.dps = 40
CENTRE = mp.mpf(4)


def scaled_tail(u):
    """(a + 4) m(a) at the a that belongs to u."""
    a = CENTRE * (1 + u) / (1 - u)
    return mp.erfc(a / mp.sqrt(2)) * mp.exp(a * a / 2) / 2 * (a + CENTRE)


def fit(degree, largest):
    """Return the coefficients, constant term first, and the largest relative error."""
    end = (largest - CENTRE) / (largest + CENTRE)
    middle, half, count = (end - 1) / 2, (end + 1) / 2, degree + 1
    at = [middle + half * mp.cos(mp.pi * (j + mp.mpf("0.5")) / count) for j in range(count)]
    differences = [scaled_tail(u) for u in at]
    for order in range(1, count):
        for i in range(count - 1, order - 1, -1):
            divisor = at[i] - at[i - order]
            differences[i] = (differences[i] - differences[i - 1]) / divisor
    polynomial = [mp.mpf(0)]
    for u, difference in zip(reversed(at), reversed(differences)):
        polynomial = [mp.mpf(0), *polynomial]
        for k in range(len(polynomial) - 1):
            polynomial[k] -= u * polynomial[k + 1]
        polynomial[0] += difference
    polynomial = polynomial[:count]
    grid = [-1 + (end + 1) * mp.mpf(i) / 997 for i in range(998)]
    errors = (abs(mp.polyval(polynomial[::-1], u) / scaled_tail(u) - 1) for u in grid)
    return polynomial, max(errors)


if __name__ == "__main__":
    for name, degree, largest, digits in (("float", 10, 15, 10), ("double", 22, 39, 18)):
        polynomial, error = fit(degree, largest)
        print(name, f"relative error {mp.nstr(error, 3)}")
        print("   ", ", ".join(mp.nstr(c, digits) for c in polynomial))
