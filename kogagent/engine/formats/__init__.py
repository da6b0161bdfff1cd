"""Checkpoint formats: config to ModelSpec, and where each canonical tensor lies. Reads no tensor data.

A format yields a `Layout`: the spec and, for every name of `spec.tensors()`, the checkpoint's own name and
shape. `weights.py` alone opens files and moves data.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kogagent.errors import ConfigError
from kogagent.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one canonical tensor lies. shapes: what the checkpoint may use, all of the canonical size.

    halves: head_dim of rows that the checkpoint rotates as halves (x0, x[h/2]) and that must be reordered to
    interleaved pairs; 0 where nothing is to be done.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    halves: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """A checkpoint's spec and the place of every canonical tensor.

    ignored: names that may be there and carry nothing the spec does not say.
    same: checkpoint names that may be there if they equal a canonical tensor (a tied head stored twice).
    """

    spec: ModelSpec
    entries: Mapping[str, Entry]
    ignored: Collection[str] = ()
    same: Mapping[str, str] = field(default_factory=dict)


def config_layout(config: Mapping[str, Any], generation: Mapping[str, Any]) -> Layout:
    """The layout of a directory by its config.json and generation_config.json ({} where there is none).

    Raises ConfigError for a family that is not understood.
    """
    from kogagent.engine.formats import huggingface, laneformer

    model_type = config.get("model_type")
    if isinstance(model_type, str):  # else it may be anything that JSON holds, a list say
        if model_type in laneformer.MODEL_TYPES:
            return laneformer.layout(config)
        if model_type in huggingface.FAMILIES:
            return huggingface.layout(config, generation)
    known = ", ".join(sorted({*laneformer.MODEL_TYPES, *huggingface.FAMILIES}))
    raise ConfigError(f"config.json: model_type {model_type!r} is not supported. Supported: {known}")


class Keys:
    """A config read key by key; what is left at the end was not understood.

    Every getter raises ConfigError that names the key, for a missing or mistyped value.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where
        self._read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """The value, `default` where it is absent or null."""
        self._read.add(key)
        value = self._values.get(key)
        return default if value is None else value

    def has(self, key: str) -> bool:
        """True where the key is there, null included."""
        return key in self._values

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._required(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, "must be an integer")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._required(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, "must be a number")
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def ids(self, key: str) -> tuple[int, ...]:
        """A token id, a list of them, or none."""
        value = self.get(key, [])
        values = value if isinstance(value, list) else [value]
        if any(isinstance(v, bool) or not isinstance(v, int) for v in values):
            raise self.error(key, "must be a token id or a list of them")
        return tuple(dict.fromkeys(values))

    def only(self, key: str, *allowed: Any) -> None:
        """Refuse any value but those: the key would change the forward pass. Absent or null is allowed."""
        value = self.get(key)
        if value is not None and value not in allowed:
            choices = " or ".join(json.dumps(a) for a in allowed)
            raise self.error(
                key, f"is not supported; only {choices} can be run" if allowed else "is not supported"
            )

    def finish(self, harmless: Collection[str]) -> None:
        """Refuse keys that nothing has read: one of them might change what the model computes."""
        unknown = sorted(
            key
            for key, value in self._values.items()
            if key not in self._read and key not in harmless and value is not None
        )
        if unknown:
            named = ", ".join(map(repr, unknown))
            raise ConfigError(
                f"{self._where}: unknown {'key' if len(unknown) == 1 else 'keys'} {named}. "
                "They might change what the model computes; remove them if they do not."
            )

    def error(self, key: str, rule: str) -> ConfigError:
        return ConfigError(f"{self._where}: {key}={self._values.get(key)!r} {rule}")

    def _required(self, key: str, default: Any) -> Any:
        value = self.get(key, default)
        if value is None:
            raise ConfigError(f"{self._where}: {key!r} is missing")
        return value
