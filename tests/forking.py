"""What a forked child can do."""

import os
import warnings
from collections.abc import Callable


def fork() -> int:
    """`os.fork`, without newer Pythons' warning that other libraries have threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def in_child(task: Callable[[], object]) -> str:
    """What a task returns in a forked child, as text, or the error that it raises there."""
    theirs, ours = os.pipe()
    child = fork()
    if not child:
        try:
            os.write(ours, said(task).encode())
        finally:
            os._exit(0)
    os.close(ours)
    with os.fdopen(theirs, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    return text


def said(task: Callable[[], object]) -> str:
    """What a task returns, as text, or the error that it raises."""
    try:
        return str(task())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
