"""Materials: strain energy densities `psi(F)`."""

from ._material.active_stress import ActiveStress as ActiveStress
from ._material.arruda_boyce import ArrudaBoyce as ArrudaBoyce
from ._material.base import AbstractMaterial as AbstractMaterial
from ._material.corotational import Corotational as Corotational
from ._material.costa import Costa as Costa
from ._material.damage import Damage as Damage
from ._material.drucker_prager import DruckerPrager as DruckerPrager
from ._material.function_of_invariants import function_of_invariants as function_of_invariants
from ._material.gent import Gent as Gent
from ._material.hencky_plasticity import HenckyPlasticity as HenckyPlasticity
from ._material.holzapfel_gasser_ogden import HolzapfelGasserOgden as HolzapfelGasserOgden
from ._material.j2_plasticity import J2Plasticity as J2Plasticity
from ._material.linear import LinearElastic as LinearElastic
from ._material.mooney_rivlin import MooneyRivlin as MooneyRivlin
from ._material.neo_hookean import NeoHookean as NeoHookean
from ._material.ogden import Ogden as Ogden
from ._material.st_venant_kirchhoff import StVenantKirchhoff as StVenantKirchhoff
from ._material.stable_neo_hookean import StableNeoHookean as StableNeoHookean
from ._material.stress_law import AbstractStressLaw as AbstractStressLaw
from ._material.thermal_expansion import ThermalExpansion as ThermalExpansion
from ._material.update_law import AbstractUpdateLaw as AbstractUpdateLaw
from ._material.veronda_westmann import VerondaWestmann as VerondaWestmann
from ._material.viscoelastic import Viscoelastic as Viscoelastic
from ._material.yeoh import Yeoh as Yeoh
