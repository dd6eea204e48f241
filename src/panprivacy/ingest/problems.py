"""Refusals of requests and bodies, in words that never repeat what was sent.

A refusal may end up in a log or with another program, so it names the type of the problem and the row, and no value.
"""

import traceback
from enum import Enum
from typing import Any

from panprivacy.errors import PanPrivacyError


class ProblemType(Enum):
    """Every type of problem: its name in `/problems`, its HTTP status, and one sentence.

    A status below 500 says that this body can never be counted; from 500 on, that it may be sent again later.
    """

    unreadable = ("unreadable", 422, "The body, or a row of it, cannot be read as its content type says.")
    no_column = ("no-column", 422, "The body lacks a column that this counter needs.")
    missing = ("missing-value", 422, "A row has no id, or no category.")
    outside = ("outside-universe", 422, "The user of a row is not in the universe of this counter.")
    category = ("unknown-category", 422, "The category of a row is not one of this counter's.")
    action = ("unknown-action", 422, "The action of a row is neither insert nor delete.")
    untimely = ("untimely", 422, "A row has no readable time, or its time is in the future or too late.")
    no_deletions = ("no-deletions", 422, "This counter cannot take users back.")
    bad_request = ("bad-request", 400, "This address does not take such a request.")
    no_token = ("no-token", 401, "This needs a token: Authorization: Bearer TOKEN.")
    role = ("role", 403, "The token does not allow this.")
    cross_site = ("cross-site", 403, "A page of another site cannot use this service.")
    not_found = ("not-found", 404, "There is nothing at this address.")
    method = ("method", 405, "This address does not take this method.")
    slow = ("slow", 408, "The body did not come in time.")
    spent = ("budget-spent", 409, "All planned releases are made; the last one can be read again at no cost.")
    not_now = ("not-now", 409, "This cannot be done in the state that the counter is in.")
    layout = ("layout", 409, "These slots are of another layout: GET the counter's /layout, and gather them again.")
    retired = ("retired", 410, "This counter is retired: its releases can be read, and nothing else.")
    too_large = ("too-large", 413, "The body is larger than this service takes.")
    content_type = (
        "content-type",
        415,
        "Send Arrow IPC, NDJSON, CSV, JSON or slots, and say which in Content-Type.",
    )
    host = ("host", 421, "The service is not known by this name; if it is one of its own, add it to service.hosts.")
    headers = ("headers-too-large", 431, "The headers of the request are more, or longer, than this service takes.")
    rate = ("rate", 429, "Too many requests; wait as long as Retry-After says.")
    broken = ("broken", 500, "The service failed; nothing of this request was counted.")
    busy = ("busy", 503, "Too much is waiting to be counted; try again.")
    damaged = ("damaged", 503, "A file of this counter is damaged: its operator has to put it back. Others are served.")
    clock = (
        "clock",
        503,
        "By the clock the service was stopped for very long: its operator has to say if that is right.",
    )
    closing = ("closing", 503, "The service is stopping; nothing of this request was counted.")
    disk = ("disk", 507, "The disk does not take the state, so nothing of this request was counted; try again.")
    unlisted = ("unlisted", 507, "The release was spent but could not be stored; the next request returns it.")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title

    @property
    def is_lasting(self) -> bool:
        """Whether the same body would be refused again, however often it is sent."""
        return self.status < 500


class Refused(PanPrivacyError):
    """A request or a body that is not served.

    `detail` says more than the title of the problem. It must not quote a value that was sent.

    >>> refused = Refused(ProblemType.outside, row=3)
    >>> refused.code, refused.to_dict()["row"]
    ('outside-universe', 3)
    """

    def __init__(
        self, type: ProblemType, detail: str = "", *, row: int | None = None, retry: float | None = None
    ) -> None:
        super().__init__(detail or type.title, code=type.slug)
        self.type = type
        self.detail = detail
        self.row = row
        """The row of the body, from 1, that is to blame."""
        self.retry = retry
        """Seconds after which to try again."""

    def to_dict(self) -> dict[str, Any]:
        """The problem details of RFC 9457."""
        more: dict[str, Any] = {"detail": self.detail} if self.detail else {}
        if self.row is not None:
            more["row"] = self.row
        return {"type": f"/problems#{self.type.slug}", "title": self.type.title, "status": self.type.status} | more


def drop_frames(error: BaseException) -> None:
    """Cut an exception, and the exceptions that led to it, off from the frames of their calls.

    Those frames hold rows. A future that holds the exception and a frame that holds the future refer to each other, so
    that the rows would stay until Python next collects cycles.
    """
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None:
            continue
        waiting += [each.__cause__, each.__context__]
        each.__cause__ = each.__context__ = None
        traceback.clear_frames(each.__traceback__)
        each.__traceback__ = None
