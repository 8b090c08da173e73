"""Pictures: scenes, films, a window in the browser, matrices, modes, convergence (extras `viz`, `viz3d`, `show`)."""

from ._animate import Animation as Animation
from ._animate import animate as animate
from ._energies import draw_energies as draw_energies
from ._modes import draw_modes as draw_modes
from ._path import draw_path as draw_path
from ._plot import plot as plot
from ._residuals import draw_residuals as draw_residuals
from ._show import show as show
from ._spy import spy as spy
from ._surface import draw_surface as draw_surface
