"""A service that does not start itself anew with allocators that overwrite: planted, to be found."""

import os


def keep_as_it_is() -> None:
    """Have the command believe that it was started hardened."""
    os.environ["PANPRIVACY_STARTED_HARDENED"] = "1"
