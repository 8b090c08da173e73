"""Block-sparse matrices, their assembly from elements of one's own, boundary conditions, and files."""

from ._assembly.public_functions import component_matrix as component_matrix
from ._solve.compliance import compliance_matrix as compliance_matrix
from ._sparse.assemble import AssemblyPattern as AssemblyPattern
from ._sparse.assemble import assemble as assemble
from ._sparse.block_matrix import BlockMatrix as BlockMatrix
from ._sparse.block_sparse import BlockSparse as BlockSparse
from ._sparse.dirichlet import eliminate_rows as eliminate_rows
from ._sparse.dirichlet import eliminate_rows_and_columns as eliminate_rows_and_columns
from ._sparse.dirichlet import impose_penalty as impose_penalty
from ._sparse.dirichlet import impose_weak_penalty as impose_weak_penalty
from ._sparse.export import write_matrix as write_matrix
from ._sparse.layout import StateLayout as StateLayout
from ._sparse.pattern import BlockPattern as BlockPattern
from ._sparse.preconditioned import PreconditionedOperator as PreconditionedOperator
from ._sparse.triplets import Triplets as Triplets
