"""Pictures of the page, with counters of every kind and made-up events: what docs/reference/service.md shows.

    PYTHONPATH=tests python tests/serve/pictures.py docs/img/serve.png      # the picture of the documentation
    PYTHONPATH=tests python tests/serve/pictures.py --all some-folder       # all widths, both schemes: to be looked at

Coins are those of the system, so that two runs differ by their noise.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from browsing import chromium, until_drawn
from numpy.typing import NDArray
from PIL import Image
from served import Served, served

from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.serve.config import settings_of
from panprivacy.serve.counter import Counter

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PEOPLE, DAYS = 200_000, 40
REGIONS = ("north", "south", "west", "east")
CLINICS = ("emergency", "family doctor", "walk-in")
_COLOURS = 96  # of the picture of the documentation, which is so a third as large
VIEWS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1200, "height": 1080}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 760}, "color_scheme": "dark"},
    "tablet": {"viewport": {"width": 820, "height": 1000}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    "phone-dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}


def tables(folder: Path, start: datetime) -> dict[str, Any]:
    """Counters of every kind, all released each day by the times of their events."""
    region = np.arange(PEOPLE) * len(REGIONS) // PEOPLE
    rows = "".join(f"{user},{REGIONS[each]}\n" for user, each in enumerate(region))
    (folder / "people.csv").write_text("user,region\n" + rows)
    daily = {"schedule": {"every": "1d", "start": start, "time": "at", "ahead": 1}, "column": "user", "epsilon": 1.0}
    known = daily | {"universe": PEOPLE, "delta": 1e-9}
    planned = known | {"releases": 60}
    listed = {"universe_file": "people.csv:user", "group": "region", "releases": 60, "delta": 1e-9}
    return {
        "flu": daily | listed | {"title": "Patients with flu this winter", "kind": "density"},
        "clinics": planned | {"title": "Where they went", "kind": "density", "by": "clinic", "categories": [*CLINICS]},
        "visitors": daily | {"title": "Visitors of the help page", "kind": "distinct", "ids": "integers"}
        | {"releases": 60, "delta": 1e-9},
        "often": planned | {"title": "How often they came", "kind": "counts", "up_to": 4, "epsilon": 3.0},
        "regions": daily | listed | {"title": "How often, by region", "kind": "counts", "up_to": 2, "epsilon": 4.0},
        "active": known | {"title": "Active lately", "kind": "actives", "span": "7d", "epsilon": 2.0},
        "anytime": known | {"title": "At any time", "kind": "continual", "step": 0.1, "epsilon": 2.0},
        "again": known | {"title": "Who came back", "kind": "retention", "releases": 10, "epsilon": 2.0}
        | {"schedule": {"every": "4d", "start": start + timedelta(days=4), "time": "at", "late": "skip", "ahead": 1}},
    }  # fmt: skip


def visitors_of(day: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """Who comes on a day: few, many, and few again; from some regions more than from others."""
    number = int(400 + 8000 * np.exp(-(((day - 20) / 8.0) ** 2)))
    region = draw.choice(len(REGIONS), number, p=(0.45, 0.28, 0.18, 0.09))
    return region * (PEOPLE // len(REGIONS)) + draw.integers(0, PEOPLE // len(REGIONS), number)


def feed(counter: Counter, start: datetime, days: int) -> None:
    """Have some days counted, and the beginning of the one that is open."""
    draw = np.random.default_rng(2026)
    for day in range(days + 1):
        at, users = (start + timedelta(days=day, minutes=1)).isoformat(), visitors_of(day, draw)
        clinics = draw.choice(CLINICS, len(users), p=(0.2, 0.5, 0.3))
        rows = "".join(f"{user},{at},{clinic}\n" for user, clinic in zip(users, clinics, strict=True))
        counter.take(Body.copied(f"user,at,clinic\n{rows}".encode(), ContentType.csv)).result()


@contextmanager
def winter(days: int = DAYS) -> Iterator[Served]:
    """A service that has counted so many days, up to today."""
    start = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values = {"service": {"anonymous": ["read"]}, "counters": tables(folder, start)}
        with served(settings_of(values, folder)) as running:
            for counter in running.service.counters.values():
                feed(counter, start, days)
            yield running


def picture(browser: "Browser", address: str, view: str, *, whole: bool, scale: float = 1) -> bytes:
    """The page as a PNG, when all of its charts are drawn."""
    context = browser.new_context(**VIEWS[view], device_scale_factor=scale)
    page = context.new_page()
    page.goto(f"{address}#counter-flu")
    until_drawn(page)
    page.evaluate("() => scrollTo(0, 0)")
    taken = page.screenshot(full_page=whole)
    context.close()
    return taken


def small(png: bytes) -> Image.Image:
    """The same with fewer colours."""
    return Image.open(BytesIO(png)).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures of the page of the service.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--all", action="store_true", help="all views, into a folder")
    given = parser.parse_args()
    with winter() as running, chromium() as browser:
        if not given.all:
            small(picture(browser, running.address, "light", whole=False, scale=1.5)).save(given.path, optimize=True)
            return
        given.path.mkdir(exist_ok=True)
        for view in VIEWS:
            (given.path / f"{view}.png").write_bytes(picture(browser, running.address, view, whole=True))


if __name__ == "__main__":
    main()
