"""How others reach the counters: routes, tokens, limits, and answers that never repeat what was sent."""

from panprivacy.serve.http.app import make_app
from panprivacy.serve.http.context import AppContext

__all__ = ["AppContext", "make_app"]
