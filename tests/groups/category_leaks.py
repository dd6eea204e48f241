"""A leak of categories for the memory auditor to find: called in a child process before anything else is done there."""

from typing import Any

from panprivacy.memory.scratch import Scratch
from panprivacy.universe.categories import Categories

_kept: list[Any] = []


def the_categories_of_events() -> None:
    """Which category each event was in, in their order."""
    codes = Categories.codes

    def noted(self: Categories, chunk: Any, scratch: Scratch) -> Any:
        found = codes(self, chunk, scratch)
        _kept.append(found.copy())
        return found

    Categories.codes = noted  # type: ignore[method-assign]
