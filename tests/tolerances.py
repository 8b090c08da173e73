"""Named tolerances. A test that needs another one says why, here."""

# Two ways to compute the same float64 sum of products (assembled, product by product, by automatic
# differentiation): relative to the largest entry, some thousand rounding units. A wrong term is larger by ten
# orders of magnitude.
ROUND_OFF = 1e-12

# A matrix assembled from blocks, and column by column from products: relative to its largest entry, some hundred
# rounding units where 5e-16 was measured.
TWO_ROUTES = 1e-13

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

# What every solver is held to on the matrix of every scene. Iterations are asked for a residual of SOLVE_GOAL |b|, so
# that the relative error in the 2-norm is at most that times the condition number; SOLVE_ROUNDING, some fifty rounding
# units, is the same for what factors and products round. Where the condition times the rounding unit is more than the
# goal, residuals cannot fall that far, and an iteration may say so (a named failure) instead.
SOLVE_GOAL = {"float64": 1e-11, "float32": 1e-4}
SOLVE_ROUNDING = {"float64": 1e-14, "float32": 5e-6}

# Sums of impulses that the laws determine, of contacts that are not determined one by one: what leaves them undetermined
# is held by a small compliance that is mended, so that some 1e-8 of the largest is left of it, in derivatives too.
UNDETERMINED = 1e-6
