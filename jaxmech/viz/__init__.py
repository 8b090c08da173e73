"""Pictures, drawn by matplotlib (extra `viz`)."""

from ._spy import spy as spy
from ._surface import draw_surface as draw_surface
