"""The commands of `panprivacy`; `panprivacy.cli` loads the called one."""
