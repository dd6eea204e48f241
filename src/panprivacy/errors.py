"""What can go wrong, in the user's words."""


class PanPrivacyError(Exception):
    """The parent of every error of this library."""


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
    """Nothing that could be built does what was asked; the message says what would be possible."""


class LateEvent(PanPrivacyError, ValueError):
    """An event belongs to a period of time that is over; nothing was changed."""


class EarlyEvent(PanPrivacyError, ValueError):
    """An event is dated further ahead than a row may move the clock; nothing was changed."""
