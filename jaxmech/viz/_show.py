"""A scene in a browser, to be turned round and played with."""

import contextlib
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._model.system import State, System, check_inputs
from .._runtime.argument_checks import (
    check_callable,
    check_counts,
    check_flags,
    check_instance,
    check_path,
    plain,
    real_array,
)
from .._runtime.atomic_files import replacing
from ._faces import fan
from ._frames import drawings, states_of, thinned
from ._plot import Style, check_limits, check_options
from ._shading import HELD, INK, LOAD, polygon_colors

_PLAY = 20.0  # pictures per second of what is exported
_AXES = ("#d62728", "#2ca02c", "#1f77b4")


def show(
    system: System,
    states: Any,
    *,
    sliders: Mapping[str, tuple[float, float]] | None = None,
    response: Callable[[dict[str, float]], Any] | None = None,
    path: str | os.PathLike[str] | None = None,
    port: int = 8080,
    most_frames: int = 200,
    color: Any = None,
    label: str | None = None,
    limits: tuple[float, float] | None = None,
    reference: State | None = None,
    loads: bool = True,
    supports: bool = True,
    cmap: str = "viridis",
) -> Any:
    """Serve a scene to a browser of this machine, or a notebook; return viser's server, whose `stop()` ends it.

    `states` as in `animate`: with several there is a slider of time and a button that plays them. `sliders`: parameters
    by name with the least and the greatest value; `response(values)`, a function of `{name: value}`, gives the states to be
    shown in their place, or `(system, states)`, whenever one is moved. `path`: an `.html` file to write, which needs no
    server and no network; it plays the states (its sliders are only time: there is nobody to compute others), and no server
    is started to stay. Colours as in `plot`. Raises `ImportError` without viser (extra `show`), and what `animate` does;
    `ValueError` for sliders without a response, or without a range.
    Times [s]. Source: B. Yi et al., *Viser: imperative, web-based 3D visualization in Python*, 2025, arXiv:2507.22885.

    Example:

        run = jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt=0.01, steps=4)
        assert jm.viz.show(system, run, color="displacement", path="fall.html", port=8123) is None
        with open("fall.html", encoding="utf-8") as page:
            assert "<html" in page.read()
    """
    port, most_frames = map(plain, (port, most_frames))
    check_counts("show", port=port, most_frames=most_frames)
    found = thinned(states_of("show", states), most_frames)
    check_inputs("show", system, found[0])
    check_options("show", system, color, reference, None, None, "matplotlib", None, label=label, cmap=cmap)
    check_flags("show", loads=loads, supports=supports)
    limits = check_limits("show", limits)
    _check_sliders(sliders, response, path)
    try:
        import viser
    except ImportError as error:
        raise ImportError('show serves a scene with viser: pip install "jaxmech[show]".') from error
    options = {"color": color, "label": label, "reference": reference, "skins": None, "loads": loads, "supports": supports}
    quiet = contextlib.redirect_stdout(io.StringIO()) if path is not None else contextlib.nullcontext()
    with quiet:  # of where it listens, which of a file nobody needs to know
        stage = _Stage(viser.ViserServer(host="127.0.0.1", port=port, verbose=False, label="jaxmech"), options, limits, cmap)
        try:
            stage.put(system, found)
            if path is not None:
                with replacing(Path(path)) as new:
                    Path(new).write_text(stage.exported(), encoding="utf-8")
        except BaseException:
            stage.server.stop()
            raise
        if path is not None:
            stage.server.stop()
            return None
    stage.controls(system, sliders or {}, response, most_frames)
    _show_in_notebook(stage.server)
    return stage.server


class _Stage:
    """What stands on a server: every frame as a group of its own, of which one is visible."""

    def __init__(self, server: Any, options: dict[str, Any], limits: tuple[float, float] | None, cmap: str):
        self.server, self.options, self.limits, self.cmap = server, options, limits, cmap
        self.groups: list[Any] = []
        self.times: list[float] = []
        self.shown = 0
        self.node: Any = None
        server.scene.set_up_direction("+z")

    def put(self, system: System, states: list[State]) -> None:
        """Build the frames anew."""
        pictures, fields, ends, box = drawings("show", system, states, **self.options)
        color = self.options["color"]
        for group in self.groups:
            group.remove()
        self.groups, self.times = [], [float(s.time) for s in states]
        for i, picture in enumerate(pictures):
            field = None if fields is None else fields[i]
            plain = color if fields is None and isinstance(color, str) else None
            style = Style(field, self.limits or ends, plain, True, True, (22.0, -60.0), self.cmap, None)
            group = self.server.scene.add_frame(f"/frame{i}", show_axes=False, visible=i == 0)
            _add(self.server.scene, f"/frame{i}", picture, style)
            self.groups.append(group)
        if fields is not None:
            low, high = self.limits or ends or (0.0, 0.0)
            place = _in_space(np.array([[box[0, 0], *box[1, 1:]]]))[0]
            self.server.scene.add_label(
                "/label", f"{fields[0].label}: {low:.3g} (dark) to {high:.3g} (bright)", position=place
            )
        self.shown = 0
        middle, size = _in_space(box).mean(0), float(np.ptp(box, axis=0).max())
        self.server.initial_camera.position = middle + size * np.array([0.35, -0.8, 0.35])
        self.server.initial_camera.look_at = middle

    def reveal(self, i: int) -> None:
        """Show frame `i` in place of the one that is shown."""
        i = min(max(int(i), 0), len(self.groups) - 1)
        self.groups[i].visible = True
        if i != self.shown:
            self.groups[self.shown].visible = False
        self.shown = i

    def exported(self) -> str:
        """A page that plays the frames by itself."""
        record = self.server.get_scene_serializer()
        for i in range(len(self.groups)):
            self.reveal(i)
            record.insert_sleep(1 / _PLAY)
        return record.as_html()

    def controls(self, system: System, sliders: Mapping[str, Any], response: Any, most: int) -> dict[str, Any]:
        """Sliders of time and of parameters; those of parameters by name."""
        gui = self.server.gui
        time = gui.add_slider("frame", 0, max(len(self.groups) - 1, 1), 1, 0, visible=len(self.groups) > 1)
        said = gui.add_text("t [s]", f"{self.times[0]:.4g}", disabled=True)
        handles = {n: gui.add_slider(n, lo, hi, (hi - lo) / 100, 0.5 * (lo + hi)) for n, (lo, hi) in sliders.items()}

        @time.on_update
        def _(_: Any) -> None:
            self.reveal(time.value)
            said.value = f"{self.times[self.shown]:.4g}"

        def moved(_: Any) -> None:
            answer = response({name: float(handle.value) for name, handle in handles.items()})
            scene, states = answer if isinstance(answer, tuple) and isinstance(answer[0], System) else (system, answer)
            with self.server.atomic():
                self.put(scene, thinned(states_of("show: response", states), most))
                time.value = 0

        for handle in handles.values():
            handle.on_update(moved)
        return handles


def _add(scene: Any, name: str, picture: Any, style: Style) -> None:
    """One drawing, as children of a node."""
    import trimesh

    norm, cmap = style.scale()
    colors, longest = style.colors(picture), picture.extent()
    for i, surface in enumerate(picture.surfaces):
        values = None if style.field is None else style.field.of(surface)
        of_each = polygon_colors(surface, colors[surface.state], values, norm, cmap)
        corners, sides = fan(surface.polygons), surface.polygons.shape[1] - 2
        points = _in_space(surface.points)[corners].reshape(-1, 3)  # not shared: every cell has a colour of its own
        bytes_of = (255 * np.repeat(of_each, 3 * sides, axis=0)).astype(np.uint8)
        faces = np.arange(len(points)).reshape(-1, 3)
        if not surface.closed:  # to be seen from both sides
            faces = np.concatenate([faces, faces[:, ::-1]])
        mesh = trimesh.Trimesh(points, faces, vertex_colors=bytes_of, process=False)
        scene.add_mesh_trimesh(f"{name}/surface{i}", mesh)
    for i, line in enumerate(picture.lines):
        ends = _in_space(np.stack([line.start, line.end], 1).reshape(-1, picture.size)).reshape(-1, 2, 3)
        scene.add_line_segments(f"{name}/line{i}", ends, _each(style.line_colors(line), 2), thickness=0.006 * longest)
    for i, (state, places) in enumerate(picture.dots.items()):
        dots = style.node_colors(state, np.arange(len(places)), colors[state])
        _add_points(scene, f"{name}/dots{i}", places, _each(dots), longest)
    for i, places in enumerate(picture.held.values()):
        _add_points(scene, f"{name}/held{i}", places, _bytes(HELD), longest)
    for i, frame in enumerate(picture.frames):
        origins = _each(style.node_colors(frame.name, frame.nodes, INK))
        _add_points(scene, f"{name}/origins{i}", frame.origins, origins, longest)
        for column in range(picture.size):
            tips = frame.origins + 0.09 * longest * frame.axes[:, :, column]
            ends = np.stack([_in_space(frame.origins), _in_space(tips)], 1)
            scene.add_line_segments(f"{name}/axis{i}{column}", ends, _bytes(_AXES[column]), thickness=0.008 * longest)
    for i, load in enumerate(picture.arrows):
        most = np.linalg.norm(load.vectors, axis=1).max(initial=0.0)
        if most > 0:
            ends = np.stack([_in_space(load.at), _in_space(load.at + 0.18 * longest / most * load.vectors)], 1)
            scene.add_line_segments(f"{name}/load{i}", ends, _bytes(LOAD), thickness=0.008 * longest)


def _add_points(scene: Any, name: str, places: np.ndarray, colors: Any, longest: float) -> None:
    size, shape = 0.02 * longest, "circle"
    scene.add_point_cloud(name, _in_space(places), colors, point_size=size, point_shape=shape, precision="float32")


def _in_space(rows: np.ndarray) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, 3 - rows.shape[1])))


def _each(colors: np.ndarray, ends: int = 0) -> np.ndarray:
    """Bytes of colours (m, 3), of points or of both ends of lines."""
    found = (255 * colors).astype(np.uint8)
    return np.repeat(found[:, None], ends, axis=1) if ends else found


def _bytes(color: str) -> tuple[int, int, int]:
    r, g, b = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return r, g, b


def _check_sliders(sliders: Any, response: Any, path: Any) -> None:
    if path is not None:
        check_path("show", path)
        if Path(path).suffix.lower() != ".html":
            raise ValueError(f"show: path '{os.fspath(path)}' must end in .html.")
    if response is not None:
        check_callable("show", "response", response)
    if (sliders is None) != (response is None):
        raise ValueError("show: sliders and response go together, what is moved and what it does; got one of them.")
    if sliders is None:
        return
    check_instance("show", "sliders", sliders, Mapping)
    for name, ends in sliders.items():
        check_instance("show", "sliders' names", name, str)
        low, high = np.asarray(real_array("show", f"sliders['{name}']", ends, (2,))).tolist()
        if not low < high:
            raise ValueError(f"show: sliders['{name}'] must be the least and the greatest value, got {ends!r:.80}.")


def _show_in_notebook(server: Any) -> None:
    """A window of the page below the cell, where there is one."""
    import sys

    if "ipykernel" in sys.modules:
        from IPython.display import IFrame, display

        display(IFrame(f"http://localhost:{server.get_port()}", width="100%", height=500))
