"""Large temporaries whose pages are kept."""

import ctypes
import sys

# <malloc.h> of glibc
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def keep_freed_memory() -> bool:
    """Ask the C library to keep large blocks of memory when they are freed; for the whole process, from now on.

    A new page costs more than writing to it: on a CPU, an assembly or a product that allocates tens of megabytes at every
    call spends a third to a half of its time on them. Freed memory then stays with the process, which is why this is not
    done for you. It sets `M_MMAP_THRESHOLD` to 1 GiB, `M_TRIM_THRESHOLD` to the largest and `M_TOP_PAD` to 256 MiB (see
    mallopt(3)). Returns whether the library took it: `False` where it is not glibc (macOS, Windows, musl).
    No units, raises nothing. Source: mallopt(3), GNU C Library.

    Example:

        import subprocess, sys  # it changes the whole process: here another one

        program = "import jaxmech as jm; print(jm.runtime.keep_freed_memory() in (True, False))"
        assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "True"
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, (1 << 31) - 1), (_TOP_PAD, 256 << 20))
    return all([mallopt(name, value) == 1 for name, value in settings])
