"""Programs compiled in little time, and kept on disk for the other processes and for the next run.

In a folder of the user's cache, one for each version of JAX and each kind of processor; where JAX_COMPILATION_CACHE_DIR is
set, that folder is taken, and left as it is.
"""

import ctypes
import mmap
import os
import platform
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import jax
from jax._src.interpreters import mlir

MOST_BYTES = 2**30
MAPS = Path("/proc/self/maps")
PROGRAMS_OF_A_CONTEXT = 100
# To keep a small program takes as long as to compile it. Three files of tests took 58 CPU seconds where all programs were
# kept, and 29 the next time; 44 where the 36 were that take longest, and 29 the next time.
SETTINGS = {"jax_persistent_cache_min_compile_time_secs": 0.05, "jax_persistent_cache_min_entry_size_bytes": -1}

# One piece of machine code for each program: test processes have a core each.
WHOLE = "--xla_cpu_parallel_codegen_split_count=1"
# What makes machine code of fused loops by way of MLIR takes as long as all the rest. JAX 0.11 knows nothing else.
DIRECTLY = "--xla_cpu_use_fusion_emitters=false"

# What gives a program back what a user's has: without these emitters scatters are written out as loops, and truth values are
# not clamped.
AS_OF_A_USER = {"xla_cpu_use_fusion_emitters": True} if jax.__version_info__ < (0, 11) else {}


def in_less_time() -> None:
    """Compiling is most of what a small scene costs, and the answers do not depend on how well it is optimised: here, and in
    processes that this one starts. Before anything is compiled. Not for a GPU, where what is not optimised takes longer: its
    assembler has to."""
    share_contexts()
    flags = os.environ.get("XLA_FLAGS", "").split()
    wanted = (WHOLE, DIRECTLY) if jax.__version_info__ < (0, 11) else (WHOLE,)
    names = {flag.partition("=")[0] for flag in flags}
    os.environ["XLA_FLAGS"] = " ".join([*flags, *(flag for flag in wanted if flag.partition("=")[0] not in names)])
    jax.config.update("jax_disable_most_optimizations", jax.default_backend() == "cpu")


def share_contexts() -> None:
    """Lower many programs in one of MLIR's contexts, where JAX makes one for each: a third of what a program costs that is
    there already. It holds all constants of its programs, and so makes place for another before long.

    What is lowered while another program is has a context of its own: it would be put into the other.
    """
    made = getattr(mlir, "make_ir_context", None)
    if made is None or hasattr(made, "shared"):
        return
    fresh = getattr(mlir, "_create_ir_context", made)  # JAX 0.12 makes one for ten programs, and each of those by this
    kept = threading.local()

    def make_ir_context():
        if mlir.ir.Context.current is not None:
            return fresh()
        kept.programs = getattr(kept, "programs", 0) + 1
        if kept.programs % PROGRAMS_OF_A_CONTEXT == 1:
            kept.context = fresh()
        return kept.context

    make_ir_context.shared = True
    mlir.make_ir_context = make_ir_context


def keep(prune: bool) -> None:
    """Keep programs from now on, here and in processes that this one starts; `prune`: let go of old ones first."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    above = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxmech-tests"
    folder = above / f"jax-{jax.__version__}-{_processor():08x}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # nowhere to keep anything: every program is compiled
        return
    if prune:
        forget_old(above, MOST_BYTES)
    for name, value in {"jax_compilation_cache_dir": str(folder), **SETTINGS}.items():
        os.environ.setdefault(name.upper(), str(value))
        jax.config.update(name, value)


def count_maps() -> int:
    """How many memory maps this process has; 0 where the system does not say."""
    return MAPS.read_bytes().count(b"\n") if MAPS.exists() else 0


def resident_memory() -> int:
    """The bytes of memory that this process has; 0 where the system does not say."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * mmap.PAGESIZE if pages.exists() else 0


def whole_memory() -> int:
    """The bytes of memory that the machine has, or a container of it; 0 where the system does not say."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    except (AttributeError, ValueError):  # Windows; a name that is not known
        return 0
    allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip() if Path("/sys/fs/cgroup/memory.max").exists() else "max"
    return min(whole, int(allowed)) if allowed != "max" else whole


def return_memory() -> None:
    """Give back to the system what was let go of. The C library keeps nearly all of it otherwise, and a bound on what a
    process has would see nothing of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if resident_memory() else None  # of glibc
    if trim is not None:
        trim(0)


def merge_maps() -> None:
    """Make one memory map of those of compiled programs that lie side by side.

    Each piece of a program keeps three, of code, of constants and of addresses, which Linux takes for one where the same may
    be done with them. Here all may be, if the system lets: otherwise they stay three.
    """
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    maps = [line.split(maxsplit=5) for line in MAPS.read_text().splitlines()]
    places = [tuple(int(end, 16) for end in where.split("-")) for where, *_ in maps]
    for number in range(len(maps) - 2):
        piece, at = maps[number : number + 3], places[number : number + 3]
        is_program = [rights for _, rights, *_ in piece] == ["r-xp", "r--p", "rw-p"] and all(len(of) == 5 for of in piece)
        if is_program and at[0][1] == at[1][0] and at[1][1] == at[2][0]:
            protect(at[0][0], at[2][1] - at[0][0], mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)


def forget_old(folder: Path, most_bytes: int) -> None:
    """Delete the files that were not used for longest, until the rest have at most so many bytes."""
    files = sorted(_files(str(folder)))
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= most_bytes:
            break
        Path(path).unlink(missing_ok=True)
        total -= size


def _files(folder: str) -> Iterator[tuple[float, int, str]]:
    """When the files within were last used, their sizes, their paths: of so many that a `Path` for each took seconds."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.is_file():
                of = entry.stat()
                yield max(of.st_atime, of.st_mtime), of.st_size, entry.path


def _processor() -> int:
    """A number that two processors share only if they have the same instructions: programs are compiled for one."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        known = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        known = platform.processor()
    return zlib.crc32(f"{platform.machine()} {known}".encode())
