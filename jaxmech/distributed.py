"""A scene over the processes of MPI, solved by PETSc, or over JAX's devices: each has its nodes and their elements."""

from ._distributed.device_division import divide_over_devices as divide_over_devices
from ._distributed.device_solve import static_solve_over_devices as static_solve_over_devices
from ._distributed.division import divide as divide
from ._distributed.files import write_mesh_over_ranks as write_mesh_over_ranks
from ._distributed.scatter import scatter as scatter
from ._distributed.scenes import simulate_over_ranks as simulate_over_ranks
from ._distributed.scenes import static_solve_over_ranks as static_solve_over_ranks
