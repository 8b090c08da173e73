"""The process that jaxmech runs in: its devices, its memory, the compiler of its element functions."""

from ._codegen import ElementForms as ElementForms
from ._codegen import element_forms as element_forms
from ._runtime.batches import in_batches as in_batches
from ._runtime.devices import over_devices as over_devices
from ._runtime.element_compiler import element_compiler as element_compiler
from ._runtime.malloc import keep_freed_memory as keep_freed_memory
from ._runtime.processes import join_processes as join_processes
