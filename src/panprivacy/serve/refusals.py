"""What the service refuses, in words that never repeat what was sent: an error may end up in a log."""

import traceback
from dataclasses import dataclass
from enum import Enum
from typing import Any

from panprivacy.errors import PanPrivacyError


@dataclass(frozen=True)
class Sort:
    """A sort of refusal: its name in the address of its description, its HTTP status, and one sentence."""

    name: str
    status: int
    title: str


class Why(Enum):
    """All that can be refused."""

    unreadable = Sort("unreadable", 422, "The body, or a row of it, cannot be read as its content type says.")
    no_column = Sort("no-column", 422, "The body lacks a column that this counter needs.")
    missing = Sort("missing-value", 422, "A row has no id, or no category.")
    outside = Sort("outside-universe", 422, "The user of a row is not in the universe of this counter.")
    category = Sort("unknown-category", 422, "The category of a row is not one of this counter's.")
    action = Sort("unknown-action", 422, "The action of a row is neither insert nor delete.")
    untimely = Sort("untimely", 422, "A row has no readable time, or a time in the future, or one that is too late.")
    no_deletions = Sort("no-deletions", 422, "This counter cannot take users back.")
    bad_request = Sort("bad-request", 400, "The request is not one that this address takes.")
    no_token = Sort("no-token", 401, "This needs a token: Authorization: Bearer TOKEN.")
    role = Sort("role", 403, "The token does not allow this.")
    cross_site = Sort("cross-site", 403, "A page of another site cannot use this service.")
    not_found = Sort("not-found", 404, "There is nothing at this address.")
    method = Sort("method", 405, "This address does not take this method.")
    slow = Sort("slow", 408, "The body did not come in time.")
    spent = Sort("budget-spent", 409, "All planned releases are made; the last one can be read again at no cost.")
    not_now = Sort("not-now", 409, "This cannot be done in the state that the counter is in.")
    retired = Sort("retired", 410, "This counter is retired: what it published can be read, and nothing else.")
    host = Sort("host", 421, "The service is not known by this name; if it is one of its own, add it to service.hosts.")
    too_large = Sort("too-large", 413, "The body is larger than this service takes.")
    type = Sort("content-type", 415, "Send Arrow IPC, NDJSON, CSV or a JSON array, and say which in Content-Type.")
    rate = Sort("rate", 429, "Too many requests; wait as long as Retry-After says.")
    broken = Sort("broken", 500, "The service failed; nothing of this request was counted.")
    busy = Sort("busy", 503, "Too much is waiting to be counted; try again.")
    closing = Sort("closing", 503, "The service is stopping; nothing of this request was counted.")
    disk = Sort("disk", 507, "The disk does not take the state, so nothing of this request was counted; try again.")

    unlisted = Sort("unlisted", 507, "The release is spent, and whoever asks next will get it: the disk is in the way.")


class Refused(PanPrivacyError):
    """A request that is not served.

    `detail` says more, if there is more to say; whoever raises it sees to it that no id is in it.
    """

    def __init__(self, why: Why, detail: str = "", *, row: int | None = None, retry: float | None = None) -> None:
        super().__init__(detail or why.value.title)
        self.why = why
        self.detail = detail
        self.row = row
        """The row of the body, from 1, that is to blame."""
        self.retry = retry
        """Seconds after which to try again."""

    def problem(self) -> dict[str, Any]:
        """The fields of RFC 9457."""
        sort = self.why.value
        more: dict[str, Any] = {"detail": self.detail} if self.detail else {}
        if self.row is not None:
            more["row"] = self.row
        return {"type": f"/problems#{sort.name}", "title": sort.title, "status": sort.status} | more


def without_frames(error: BaseException) -> None:
    """Cut an exception off from the calls that raised it, and from the exceptions that led to it.

    Their frames hold rows. A future that holds the exception, and a frame that holds the future, refer to each other:
    Python would free them only when it next collects cycles.
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
