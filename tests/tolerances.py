"""Named tolerances. A test that needs another one says why, here."""

# Two ways to compute the same float64 sum of products (assembled, product by product, by automatic
# differentiation): relative to the largest entry, some thousand rounding units. A wrong term is larger by ten
# orders of magnitude.
ROUND_OFF = 1e-12

# The same expression compiled twice: XLA may fuse, and so round, differently.
RECOMPILED = 1e-12

# Two derivatives of one solution, forward and reverse: each is a linear solve with the same factor.
TWO_MODES = 1e-9

# A derivative against Richardson-extrapolated central differences of a Newton solution converged to rounding.
# Truncation is of fourth order in a step of 1e-3; rounding is 1e-16 / 1e-3 on quantities of order one.
FINITE_DIFFERENCE = 1e-7

# Newton to rounding: what the tests that take differences of solutions ask of `rtol`.
CONVERGED = 1e-12

# Solves with an iterative solver that was asked for 1e-12.
ITERATIVE = 1e-9
