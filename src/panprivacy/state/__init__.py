"""States at rest: the bytes of an estimator, the files they are kept in, and which class reads which."""

from panprivacy.state.disk import StateFileError
from panprivacy.state.file import StateFile, moved_to, opened
from panprivacy.state.kinds import loaded, register
from panprivacy.state.sealed import Sealed, seal, unseal

__all__ = ["Sealed", "StateFile", "StateFileError", "loaded", "moved_to", "opened", "register", "seal", "unseal"]
