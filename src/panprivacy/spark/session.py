"""The Spark session: whether it keeps what it shuffles out of plain files, and deletes it when it is done."""

from typing import Any

from panprivacy.errors import NotPrivate, PanPrivacyError

NEEDED = {
    "spark.io.encryption.enabled": "what is shuffled or spilled is encrypted on disk, under a key that no disk has",
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "shuffle files are deleted when a batch is done",
}
"""The settings that have to be true, and what each of them does."""

_USUAL = {
    "spark.shuffle.manager": ("sort", "tungsten-sort", "org.apache.spark.shuffle.sort.SortShuffleManager"),
    "spark.shuffle.sort.io.plugin.class": ("org.apache.spark.shuffle.sort.io.LocalDiskShuffleDataIO",),
}
"""Who writes shuffle files, unless somebody else was put in the place: only of these it is known that they encrypt."""


def check_session(session: Any, *, allow_plain_shuffle: bool) -> None:
    """Refuse a session that would leave the slots of a batch in plain files, and say which settings to add."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise PanPrivacyError(
            "a Spark Connect session does not say how its server keeps shuffle files: run this where the driver runs"
        )
    if allow_plain_shuffle:
        return
    lacking = [name for name in NEEDED if session.conf.get(name, "false").lower() != "true"]
    if lacking:
        settings = "".join(f'\n    .config("{name}", "true")  # {NEEDED[name]}' for name in lacking)
        raise NotPrivate(
            f"this session would leave on disk who is in a batch. Build it with{settings}\n"
            "or say allow_plain_shuffle=True, if whoever reads those disks may know"
        )
    for name, known in _USUAL.items():
        other = session.conf.get(name, known[0])
        if other not in known:
            raise NotPrivate(
                f"{name} is {other}, and whether that encrypts what it writes is not known here: leave it as it is, "
                "or say allow_plain_shuffle=True, if it does, or if whoever reads its files may know who is in a batch"
            )
