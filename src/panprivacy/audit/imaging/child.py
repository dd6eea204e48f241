"""The process that is imaged: ``python -m panprivacy.audit.imaging.child PLAN``.

It does what the plan says, one step after the other, with the code that ships. After each step it prints where its bits
are, and waits for a line: then whoever started it takes an image. It keeps no id itself.
"""

import gc
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.imaging.containers import LETTERS, Stored, opened, singly
from panprivacy.audit.imaging.subjects import Subject
from panprivacy.privacy import coins, noisy_counts
from panprivacy.privacy.noise import Noise


def main(plan: dict[str, Any]) -> None:
    """Run a scenario."""
    for planted in plan["plants"]:
        module, _, function = planted.partition(":")
        getattr(import_module(module), function)()
    if plan["keys"] is not None:
        tell_keys(plan["keys"])
    if plan["counts"] is not None:
        tell_counts(plan["counts"])
    subject = Subject(plan["kind"], plan["users"], _listed(plan["listed"]), Path(plan["folder"]))
    show(subject)
    for step in plan["steps"]:
        if step["verb"] in ("feed", "feed singly"):
            _feed(subject, Stored(**step["batch"]), singly_=step["verb"] == "feed singly")
        else:
            getattr(subject, step["verb"])()
        gc.collect()  # cycles hold arrays of the scenario's own
        show(subject)


def _feed(subject: Subject, batch: Stored, *, singly_: bool) -> None:
    if singly_:
        for user in singly(batch):
            subject.feed_one(user)
    else:
        with opened(batch) as ids:
            subject.feed(ids)


def show(subject: Subject) -> None:
    """Say where the bits are, and wait."""
    print(json.dumps([table.as_dict() for table in subject.tables()]), flush=True)
    if not sys.stdin.readline():
        sys.exit()


def tell_keys(pipe: int) -> None:
    """Write every key that the coins draw straight into a pipe."""
    fill = coins.fill_from_system

    def fill_and_tell(buffer: coins.Buffer) -> None:
        fill(buffer)
        if isinstance(buffer, bytearray):  # a key, and not the flips of a short batch
            os.write(pipe, buffer)

    coins.fill_from_system = fill_and_tell


def tell_counts(pipe: int) -> None:
    """Write all counts of releases straight into a pipe: how many, these without noise, and these with it."""
    add = noisy_counts.add_from_system

    def add_and_tell(counts: NDArray[np.int64], noise: Noise) -> None:
        os.write(pipe, len(counts).to_bytes(8, "little"))
        os.write(pipe, counts.data)
        add(counts, noise)
        os.write(pipe, counts.data)

    noisy_counts.add_from_system = add_and_tell


def _listed(path: str | None) -> Any:
    """The list of users, which is public: all of them in a file."""
    if path is None:
        return None
    octets = np.frombuffer(Path(path).read_bytes(), dtype=np.uint8)
    if path.endswith(".txt"):
        return [text.decode() for text in octets.view(f"S{LETTERS}").tolist()]
    return octets.view(np.int64)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
