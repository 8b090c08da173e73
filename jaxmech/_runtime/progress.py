"""A progress bar that a compiled loop can advance."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


class ProgressBar:
    """A bar of `total` steps, drawn by tqdm. Raises `ImportError` naming the extra where tqdm is missing."""

    def __init__(self, total: int, description: str):
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise ImportError('progress=True draws with tqdm: pip install "jaxmech[viz]".') from error
        self._open: Callable[[], Any] = lambda: tqdm(total=total, desc=description)
        self._total = total
        self._bar: Any = None

    def show(self, done: Any) -> None:
        """Show that `done` steps are done, outside of compiled programs."""
        # A compiled loop may run again, or out of order: the bar shows the furthest step of the current run.
        done = int(done)
        if self._bar is None:
            self._bar = self._open()
        if done > self._bar.n:
            self._bar.update(done - self._bar.n)
        if done >= self._total:
            self._bar.close()
            self._bar = None

    def advance(self, done: Any) -> None:
        """Show that `done` steps are done; may be called while tracing."""
        jax.debug.callback(self.show, jnp.asarray(done))
