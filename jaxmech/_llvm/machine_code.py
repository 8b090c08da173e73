"""Text in the language of LLVM made machine code of this CPU, by llvmlite.

XLA knows a foreign function by name and address, for ever: programs that were compiled with it, and those that a cache may
yet bring back, may call it, and nobody is told when the last of them is gone. So code is never freed. What it costs is its
own size: functions share engines, in whose memory they lie side by side. An engine for each function, as LLVM has it, takes
several areas of memory from the system each time, of which Linux gives a process 65,530.
"""

import functools
import platform
import re
import sys
import threading
from collections.abc import Sequence
from typing import Any

from .object_cache import kept_or_made

_ROOM = 1 << 20  # bytes of code in an engine, and of constants
_PAGE = 4096
# Something in each kind of memory, aligned to as much room: LLVM asks the system for twice that at once, and gives the rest
# to the functions that follow.
_FIRST = "\n".join(
    [
        f"define void @first.code() align {_ROOM} {{ ret void }}",
        f"@first.constant = constant i8 1, align {_ROOM}",
        f"@first.variable = global i8 1, align {_ROOM}",
    ]
)
_MEMORY = " = alloca "
_VARIABLE = re.compile(_MEMORY + r"[^[]")  # of loops that are written as such, and no array
_VECTOR = " = insertelement "  # of what elements have one after the other
_lock = threading.Lock()
_engines: list[Any] = []  # all there are; the last is added to
_used = _ROOM  # of its room


@functools.cache
def machine(*, optimised: bool = True) -> Any | None:
    """What llvmlite compiles for; None where it is not installed, cannot be loaded, or does not know this machine."""
    try:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features().flatten()
        target = llvm.Target.from_default_triple()
        # 2 would order the same instructions once more after registers are given out: a third of the time, of no use to a
        # processor that reorders them itself.
        return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=1 if optimised else 0)
    except (ImportError, OSError, RuntimeError, ValueError):
        return None


@functools.cache
def register_bytes() -> int:
    """How much a vector register of this CPU holds: of AVX-512, or else of AVX2 (two of some other machines)."""
    if machine() is None:
        return 32
    import llvmlite.binding as llvm

    return 64 if llvm.get_host_cpu_features().get("avx512f", False) else 32


def load(text: str, names: Sequence[str], symbols: dict[str, int], *, optimised: bool = True) -> list[int]:
    """The addresses of functions of a text, which have their `names` to themselves; `symbols`: what it calls, by address."""
    import llvmlite.binding as llvm

    with _lock:
        for symbol, address in symbols.items():
            llvm.add_symbol(symbol, address)
        code = kept_or_made(f"{_compiler()}\n{optimised}\n{text}", lambda: _compiled(text, optimised))
        engine = _engine(len(code))
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return [engine.get_function_address(name) for name in names]


@functools.cache
def _compiler() -> str:
    """What machine code depends on besides its text."""
    import llvmlite
    import llvmlite.binding as llvm

    machine = llvm.get_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return repr((llvmlite.__version__, llvm.llvm_version_info, *machine))


def _compiled(text: str, optimised: bool) -> bytes:
    """The object file of a text; one that is not optimised takes a fifth of the time."""
    import llvmlite.binding as llvm

    target = machine(optimised=optimised)
    assert target is not None
    with llvm.parse_assembly(text) as module:
        # Vectors are written as such: nothing is left to find. Of a text whose memory is arrays, the first level takes six
        # tenths of the time of the second, and makes code that runs as fast.
        level = 2 if _VARIABLE.search(text) else 1
        options = llvm.create_pipeline_tuning_options(speed_level=level if optimised else 0)
        options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(target, options)
        passes = builder.getModulePassManager() if _MEMORY in text or not optimised else _tidying(text)
        passes.run(module, builder)
        return target.emit_object(module)


def _tidying(text: str) -> Any:
    """For a text without variables, whose one loop computes nothing twice: the four of LLVM's own row of passes that change
    it. All of the row takes six times as long, and makes a loop of as many instructions and of the same numbers.

    Where there are no vectors to put together, as for one element, none: they find nothing, in up to a third of the time."""
    import llvmlite.binding as llvm

    passes = llvm.create_new_module_pass_manager()
    if _VECTOR in text:
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_reassociate_pass()
        passes.add_instruction_combine_pass()
    return passes


def _engine(size: int) -> Any:
    """An engine that has room for an object file of this size, or one of its own for a larger one."""
    global _used
    import llvmlite.binding as llvm

    size = -(-size // _PAGE) * _PAGE + _PAGE
    # Measured on Linux and x86-64 only; elsewhere there is an engine for each.
    shares = sys.platform == "linux" and platform.machine() == "x86_64"
    if not shares or _used + size > _ROOM:
        module = llvm.parse_assembly(_FIRST if shares and size <= _ROOM else "")
        engine = llvm.create_mcjit_compiler(module, machine())
        engine.finalize_object()
        # What one larger than all room leaves goes to nobody.
        _engines.insert(len(_engines) if size <= _ROOM else 0, engine)
        if size > _ROOM:
            return engine
        _used = 0
    _used += size
    return _engines[-1]
