"""The one thread on which every native solver object is born, used and dropped.

XLA runs callbacks on whichever of its threads is free, while some native solvers must not change thread.
"""

import atexit
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from ..._runtime.host_function import wait_for_results

_T = TypeVar("_T")
_EXIT_TIMEOUT = 10.0  # [s]


class WorkerThread:
    """Runs jobs one at a time, in order. The thread starts with the first one and keeps no process alive."""

    def __init__(self, name: str, *, at_exit: Callable[[], None]):
        self._name = name
        self._at_exit = at_exit
        self._jobs: queue.SimpleQueue[tuple[Future, Callable]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def run(self, job: Callable[[], _T], *, timeout: float | None = None) -> _T:
        """Run `job` on the worker, wait for it, and return its result or raise its exception."""
        self._start()
        future: Future = Future()
        self._jobs.put((future, job))
        return future.result(timeout)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()
                # A daemon thread dies with its objects undropped; the main thread would then drop them.
                atexit.register(self.run, self._at_exit, timeout=_EXIT_TIMEOUT)
                atexit.register(wait_for_results)  # before it: programs that still run bring jobs

    def _loop(self) -> None:
        while True:
            future, job = self._jobs.get()
            try:
                future.set_result(job())
            except BaseException as error:  # whatever it is belongs to the caller
                future.set_exception(error)
            del future, job  # do not hold a result while waiting for the next job
