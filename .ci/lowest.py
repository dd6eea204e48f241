"""Print the lowest versions that pyproject.toml allows, as constraints: ``python .ci/lowest.py > lowest.txt``."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
for requirement in [*project["dependencies"], *project["optional-dependencies"]["plot"]]:
    name, _, rest = requirement.partition(">=")
    lowest = re.match(r"[0-9.]+", rest)
    if lowest is None:
        raise SystemExit(f"{requirement}: say the lowest version with >=")
    marker = requirement.partition(";")[2]
    print(f"{name}=={lowest[0]}" + (f"; {marker.strip()}" if marker else ""))
