"""A trajectory as a moving picture."""

import base64
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._mesh.mesh import Mesh
from .._model.system import State, System, check_inputs
from .._runtime.argument_checks import check_counts, check_flags, check_path, plain, real_array
from .._runtime.atomic_files import replacing
from .._runtime.progress import ProgressBar
from ._axes import pyplot
from ._frames import drawings, states_of, thinned
from ._plot import Style, check_limits, check_options, drawn, viewed


class Animation:
    """A GIF: `data`, its bytes; shown by itself as the last line of a notebook's cell. Made by `animate`.

    No units. Raises nothing but what `save` does.

    Example:

        run = jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt=0.01, steps=2)
        assert jm.viz.animate(system, run, dpi=40).data.startswith(b"GIF89a")
    """

    def __init__(self, data: bytes, frames: int):
        self.data, self.frames = data, frames

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file; an old one is replaced when the new one is whole. Raises `TypeError` for what is no
        path, `ValueError` unless it ends in .gif."""
        _check_gif("Animation.save", path)
        with replacing(Path(path)) as new:
            Path(new).write_bytes(self.data)

    def _repr_html_(self) -> str:
        return f'<img alt="animation" src="data:image/gif;base64,{base64.b64encode(self.data).decode()}"/>'

    def __repr__(self) -> str:
        return f"Animation({self.frames} frames, {len(self.data) / 1e3:.0f} kB)"


def animate(
    system: System,
    states: Any,
    *,
    path: str | os.PathLike[str] | None = None,
    fps: float = 20.0,
    most_frames: int = 100,
    dpi: int = 80,
    color: Any = None,
    label: str | None = None,
    limits: tuple[float, float] | None = None,
    reference: State | None = None,
    skins: Mapping[str, Mesh] | None = None,
    loads: bool = True,
    supports: bool = True,
    edges: bool | None = None,
    legend: bool = True,
    view: tuple[float, float] | None = None,
    cmap: str = "viridis",
    progress: bool = False,
) -> Animation:
    """A trajectory as a GIF, drawn by matplotlib without a display; the last line of a notebook's cell shows it.

    `states`: what `simulate`, `simulate_adaptive` or `follow_path` returned, a state with a leading axis of frames, or a
    list of states. `path`: a file to write. `fps`: pictures per second [1/s]; of more than `most_frames` states as many are
    taken, evenly. Axes and colours are the same in all pictures; `color` and what follows it is as in `plot`, but that
    "displacement" is from the first state unless `reference` says otherwise. `progress`: draws a bar (needs tqdm).
    Raises what `plot` does, `TypeError` for what are no states, `ValueError` for a path that does not end in .gif.
    Source: the GIF89a specification, CompuServe, 1990.

    Example:

        run = jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt=0.01, steps=4)
        film = jm.viz.animate(system, run, path="fall.gif", color="displacement", dpi=40)
        assert film.frames == 5 and film.data.startswith(b"GIF89a")
    """
    found = thinned(states_of("animate", states), most_frames) if _checked(fps, most_frames, dpi) else []
    check_inputs("animate", system, found[0])
    check_options("animate", system, color, reference, skins, None, "matplotlib", view, label=label, title=None, cmap=cmap)
    shown = {} if edges is None else {"edges": edges}
    check_flags("animate", loads=loads, supports=supports, legend=legend, progress=progress, **shown)
    limits = check_limits("animate", limits)
    if path is not None:
        _check_gif("animate", path)
    bar = ProgressBar(2 * len(found), "animate") if progress else None
    done = iter(range(1, 2 * len(found) + 1))

    def advance() -> None:
        if bar is not None:
            bar.show(next(done))

    options = {"color": color, "label": label, "reference": reference, "skins": skins, "loads": loads, "supports": supports}
    pictures, fields, ends, box = drawings("animate", system, found, **options, each=advance)
    plain = color if fields is None and isinstance(color, str) else None
    times = [float(s.time) for s in found]
    images, places = [], []
    plt = pyplot("animate")
    for i, picture in enumerate(pictures):
        title = f"t = {times[i]:.3g} s" if len(set(times)) > 1 else None
        field = None if fields is None else fields[i]
        style = Style(field, limits or ends, plain, edges, legend, viewed(view), cmap, title, box)
        figure = drawn(picture, style, None).figure
        figure.set_dpi(dpi)
        if images:  # the layout of the first picture: a longer number must not move the axes
            figure.set_layout_engine("none")
            for axes, place in zip(figure.axes, places, strict=True):
                axes.set_position(place)
        figure.canvas.draw()
        if not images:
            places = [axes.get_position() for axes in figure.axes]
        images.append(np.asarray(figure.canvas.buffer_rgba())[..., :3].copy())
        plt.close(figure)
        advance()
    film = Animation(_gif(images, fps), len(images))
    if path is not None:
        film.save(path)
    return film


def _check_gif(who: str, path: Any) -> None:
    check_path(who, path)
    if Path(os.fspath(path)).suffix.lower() != ".gif":
        raise ValueError(f"{who}: path '{os.fspath(path)}' must end in .gif.")


def _checked(fps: Any, most_frames: Any, dpi: Any) -> bool:
    most_frames, dpi = map(plain, (most_frames, dpi))
    check_counts("animate", most_frames=most_frames, dpi=dpi)
    if not 0 < float(real_array("animate", "fps", fps, ())) <= 100:
        raise ValueError(f"animate: fps must be a number of pictures per second, above 0 and at most 100, got {fps!r:.80}.")
    return True


def _gif(images: list[np.ndarray], fps: float) -> bytes:
    """All pictures with the colours of one palette, which pillow, a part of matplotlib, chooses."""
    from PIL import Image

    whole = [Image.fromarray(image) for image in images]
    sample = Image.fromarray(np.concatenate([images[0], images[len(images) // 2], images[-1]]))
    palette = sample.quantize(128)
    frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in whole]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=round(1000 / fps), loop=0)
    return out.getvalue()
