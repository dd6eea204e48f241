"""Wipe what calls that have returned left on a thread's stack and in its vector registers."""

# mypy: disallow-untyped-decorators=False, disallow-untyped-calls=False
from numba import njit, types

from panprivacy.memory.intrinsics import clear_vector_registers, overwrite_dead_stack


@njit(types.void(), nogil=True, cache=True)
def wipe_stack() -> None:
    """Overwrite the dead part of this thread's stack, and clear its vector registers.

    A signal saves all registers on the stack, and so do calls into libraries; after a copy of bits they hold bits.
    """
    overwrite_dead_stack()  # type: ignore[call-arg]
    clear_vector_registers()
