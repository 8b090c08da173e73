"""A scene over the processes of MPI: divided among ranks, each with its nodes and their elements; solved by PETSc."""

from ._distributed.division import divide as divide
from ._distributed.files import write_mesh_over_ranks as write_mesh_over_ranks
from ._distributed.scenes import simulate_over_ranks as simulate_over_ranks
from ._distributed.scenes import static_solve_over_ranks as static_solve_over_ranks
