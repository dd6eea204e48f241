"""What an image gave away."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Imaged:
    """What was found in the last image of one scenario; all zeros is the claim."""

    scenario: str
    users: int
    """Users there could be."""
    came: int
    """Users who came."""
    hardened: bool
    """Whether the process was started so that its allocators overwrite what is freed."""
    bits_seen: bool
    """Whether the bits were found in the process; if not, an older version of them could not be told from them."""
    users_named: int
    """Users who are certain to have come: their bit differs between two versions in the image, or its flip is there."""
    words_found: int
    """Words of earlier tables, or of flips, that were found, whomever they name."""
    ids_found: int
    """Users of batches before the last whose id, hash or place was found."""
    counts_found: int
    """Counts of ones in words of earlier tables that were found."""
    keys_found: int
    """Keys of coins, or stretches of keystream, that were found."""
    where: tuple[str, ...]
    """The mappings and files in which something was found."""
    image_bytes: int
    """How large the image was, or what was noted of files."""
    seconds: float
    differences: int = 0
    """Batches after which names, lengths, times or calls of files tell whether one user was in them."""
    releases_found: int = 0
    """Counts of releases as they were before noise, or the noise on them, that were found."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found, and everything was looked for."""
        found = self.users_named, self.words_found, self.ids_found, self.counts_found, self.releases_found
        return self.bits_seen and not any(found) and not self.keys_found and not self.differences

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self) | {"clean": self.clean}

    def __str__(self) -> str:
        mode = "hardened" if self.hardened else "plain"
        found = f"{self.users_named:,} of {self.came:,} users named, {self.ids_found:,} ids found"
        extra = [
            f"{number:,} {what}"
            for number, what in (
                (self.words_found, "words of earlier tables"),
                (self.counts_found, "earlier counts"),
                (self.releases_found, "exact counts of releases or their noise"),
                (self.keys_found, "keys or keystreams"),
                (self.differences, "batches told by files"),
            )
            if number
        ]
        if not self.bits_seen:
            extra.append("bits not located")
        where = f" in {', '.join(self.where)}" if self.where else ""
        return f"{self.scenario} ({self.users:,} users, {mode}): {', '.join([found, *extra])}{where}"
