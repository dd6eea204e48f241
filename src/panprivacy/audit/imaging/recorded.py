"""What was seen of a process on the way to its last image."""

from pathlib import Path

from panprivacy.audit.imaging.crowd import Batch, Crowd
from panprivacy.audit.imaging.images import Image, take
from panprivacy.audit.imaging.truth import Fed, Traces, Version


class Recorded:
    """The bits at every checkpoint, who was fed in between, and the images before the first batch and at the end."""

    def __init__(self, crowd: Crowd, folder: Path) -> None:
        self._crowd = crowd
        self._folder = folder
        self._versions: list[list[Version]] = []
        self._after: list[tuple[Fed, list[Version]]] = []
        self.before: Image | None = None
        self.last: Image | None = None

    @property
    def fed(self) -> list[Fed]:
        """All batches."""
        return [fed for fed, _ in self._after]

    @property
    def located(self) -> bool:
        """Whether the bits were seen at every checkpoint."""
        return all(self._versions)

    def start(self, process: int, versions: list[Version]) -> None:
        """Take the image before the first batch."""
        self._versions.append(versions)
        self.before = take(process, self._folder)

    def step(self, batch: Batch | None, versions: list[Version]) -> None:
        """Note what a step, which may have been a batch, has made of the bits."""
        self._versions.append(versions)
        if batch is not None:
            epoch = versions[0].shown.epoch if versions else 0
            self._after.append((Fed.of(batch, self._crowd, epoch), versions))

    def end(self, process: int) -> None:
        """Take the image that is searched."""
        self.last = take(process, self._folder)

    def traces(self) -> Traces:
        """All that must not be in the last image, but for keys."""
        traces = Traces(self._crowd)
        *earlier, present = self._versions
        for version in (version for versions in earlier for version in versions):
            traces.add_version(version, present)
        for fed, versions in self._after[:-1]:
            traces.add_ids(fed)
            if any(version.shown.file for version in versions):
                traces.add_marks(fed)
            for version in versions:
                traces.add_flips(fed, version)
                traces.add_gathered(fed, version, present)
        return traces
