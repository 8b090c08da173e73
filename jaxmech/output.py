"""Results: stresses at Gauss points and nodes, reactions, section forces, probes, files of time series."""

from ._output.gauss_fields import GaussFields as GaussFields
from ._output.gauss_fields import gauss_fields as gauss_fields
from ._output.nodal_projection import at_nodes as at_nodes
from ._output.probe import Probe as Probe
from ._output.resultants import Resultant as Resultant
from ._output.resultants import reaction_resultants as reaction_resultants
from ._output.resultants import section_force as section_force
from ._output.series import write_series as write_series
from ._output.structure_forces import ShellStresses as ShellStresses
from ._output.structure_forces import beam_forces as beam_forces
from ._output.structure_forces import shell_stresses as shell_stresses
