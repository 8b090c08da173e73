"""Pictures, drawn by matplotlib (extra `viz`)."""

from ._path import draw_path as draw_path
from ._spy import spy as spy
from ._surface import draw_surface as draw_surface
