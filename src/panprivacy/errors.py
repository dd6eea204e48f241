"""The errors of this library: each has a sentence for people, and a `code` for programs that outlives the sentence."""

import re
from typing import Any, ClassVar


class PanPrivacyError(Exception):
    """The parent of every error of this library.

    >>> error = InvalidValue("epsilon must be above 0, got -1", code="epsilon-range")
    >>> error.code, str(error)
    ('epsilon-range', 'epsilon must be above 0, got -1')
    >>> BudgetExhausted("all releases are made").code
    'budget-exhausted'
    """

    CODE: ClassVar[str] = "error"
    """The code of an error that is raised without one: unless a class sets it, its name in small letters."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "CODE" not in vars(cls):
            cls.CODE = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.code: str = code or self.CODE


class InvalidValue(PanPrivacyError, ValueError):
    """An argument has a value that is not allowed; nothing was changed."""


class InvalidType(PanPrivacyError, TypeError):
    """An argument is of a type that is not allowed; nothing was changed."""


class OutsideUniverse(PanPrivacyError, ValueError):
    """An id is not one of the users the estimator was built for; nothing was changed."""


class BudgetExhausted(PanPrivacyError):
    """The planned releases or rerandomisations are used up; nothing was spent."""


class NotPrivate(PanPrivacyError, ValueError):
    """The request would not be private, whatever its result."""


class CorruptState(PanPrivacyError, ValueError):
    """The bytes are not a whole, unaltered state of this library."""


class OtherUniverse(PanPrivacyError, ValueError):
    """A saved estimator was built for other users than those it is now given with."""


class CannotMerge(PanPrivacyError, ValueError):
    """The estimators are not disjoint parts of one design."""


class CannotPlan(PanPrivacyError, ValueError):
    """No design does what was asked; the message says what would be possible."""


class LateEvent(PanPrivacyError, ValueError):
    """An event belongs to a period of time that is over; nothing was changed."""


class EarlyEvent(PanPrivacyError, ValueError):
    """An event is dated further ahead than a row may move the clock; nothing was changed."""


class ServiceUnavailable(PanPrivacyError):
    """A service did not serve a request in time; whether it did later is not known."""


class NoEstimate(PanPrivacyError, AttributeError):
    """A release has no estimate of this name; the message says why. `hasattr` is False for it."""
