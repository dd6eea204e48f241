"""The commands of `panprivacy`, a file each; `panprivacy.cli` loads the one that is called."""
