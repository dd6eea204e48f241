"""What calls that have returned left on the stack."""

from panprivacy.lazily import loaded


def wipe_stack() -> None:
    """Wipe what calls that have returned left on the stack of this thread, and in the registers of its processor."""
    loaded("panprivacy.privacy.kernels").wipe_stack()
