"""Modules that take long to import, imported when they are first needed and found quickly from then on."""

from functools import cache
from importlib import import_module
from typing import Any


@cache
def loaded(name: str) -> Any:
    """The module of this name; an import statement in a function would take ten times as long each time.

    >>> loaded("math").sqrt(4)
    2.0
    """
    return import_module(name)
