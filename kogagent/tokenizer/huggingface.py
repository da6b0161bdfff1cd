"""A Hugging Face directory's tokenizer files. Reads tokenizer.json and what stands beside it; no weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kogagent.errors import ConfigError
from kogagent.tokenizer.source import END_NAMES, Added, Source, is_tag

_ROLES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
_NAMED = ("name", "template")  # an entry of a list of templates


def read_directory(path: Path) -> Source:
    """Read tokenizer.json, and what there is of tokenizer_config.json, special_tokens_map.json,
    generation_config.json, config.json and chat_template.jinja.

    Raises ConfigError for a missing or unreadable file and for a model type other than BPE.
    """
    from tokenizers import Tokenizer as Core

    main = path / "tokenizer.json"
    if not main.is_file():
        hint = "It has a tokenizer.model only" if (path / "tokenizer.model").is_file() else "Nothing to load"
        raise ConfigError(
            f"{path}: no tokenizer.json. {hint}: write it with transformers, "
            "AutoTokenizer.from_pretrained(directory).save_pretrained(directory)."
        )
    text = _text(main)
    whole = _object(main, text)
    model = whole["model"] if isinstance(whole.get("model"), dict) else {}
    kind = model.get("type")
    if kind != "BPE":
        raise ConfigError(f"{main}: model type {kind!r} is not supported. Supported: 'BPE'.")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):  # the library may end the process on a prefix that its merges lack
            raise ConfigError(f"{main}: {key} {model[key]!r} is not supported")
    for key in ("normalizer", "pre_tokenizer", "decoder"):
        if not isinstance(whole.get(key), dict | None):
            raise ConfigError(f"{main}: {key} must be an object or null, not {whole[key]!r}")
    try:
        core = Core.from_str(text)
    except Exception as error:  # the library raises a bare Exception
        raise ConfigError(f"{main}: refused by the tokenizers library ({error})") from error
    config = {key: value for key, value in whole.items() if key not in ("model", "added_tokens")}
    added = tuple(_added(entry, main) for entry in whole.get("added_tokens") or ())
    for token in added:
        if core.token_to_id(token.name) != token.id:
            raise ConfigError(
                f"{main}: the added token {token.name!r} has id {token.id}, but follows the vocabulary as "
                f"{core.token_to_id(token.name)}. Ids of added tokens must have no gap: save it again."
            )
    settings = _optional(path / "tokenizer_config.json")
    stated = settings.get("added_tokens_decoder") or {}
    if not isinstance(stated, dict):
        raise ConfigError(f"{path}/tokenizer_config.json: added_tokens_decoder must be an object")
    for id, entry in stated.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            raise ConfigError(
                f"{path}/tokenizer_config.json: added_tokens_decoder[{id!r}] must hold a text 'content'"
            )
        if str(core.token_to_id(entry["content"])) != id:
            raise ConfigError(
                f"{path}: tokenizer_config.json adds {entry['content']!r} as id {id}, which tokenizer.json "
                "does not know. Save the tokenizer again with transformers."
            )
    names = _names(_optional(path / "special_tokens_map.json")) | _names(settings)
    ids = {token.name: token.id for token in added}

    def role(name: str) -> int | None:
        text = names.get(name)
        return None if text is None else ids.get(text, core.token_to_id(text))

    ends = [role("eos_token")]
    for file in ("generation_config.json", "config.json"):
        stated = _optional(path / file).get("eos_token_id")
        ends += stated if isinstance(stated, list) else [stated]
    ends += [token.id for token in added if token.control and token.name in END_NAMES]
    size = core.get_vocab_size(with_added_tokens=True)
    most = max((size, *(token.id + 1 for token in added)))
    for end in ends:
        if end is not None and (type(end) is not int or not 0 <= end < most):
            raise ConfigError(f"{path}: eos_token_id {end!r} lies outside the vocabulary of {most} tokens")
    bos = role("bos_token")
    prefix = core.encode("", add_special_tokens=True).ids
    stated = settings.get("add_bos_token")
    add_bos = bos is not None and (stated if isinstance(stated, bool) else prefix[:1] == [bos])
    return Source(
        where=str(path),
        core=core,
        config=config,
        added=added,
        bos_id=bos,
        add_bos=add_bos,
        end_ids=tuple(dict.fromkeys(end for end in ends if end is not None)),
        templates=_templates(path, settings),
        names=names,
    )


def _added(entry: Mapping[str, Any], where: Path) -> Added:
    name = entry["content"]
    control = bool(entry.get("special")) or is_tag(name)
    if control and entry.get("single_word"):
        raise ConfigError(
            f"{where}: the special token {name!r} is marked single_word, which is not supported"
        )
    return Added(entry["id"], name, control, bool(entry.get("lstrip")), bool(entry.get("rstrip")))


def _names(settings: Mapping[str, Any]) -> dict[str, str]:
    out = {}
    for role in _ROLES:
        value = settings.get(role)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            out[role] = value
    return out


def _templates(path: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """The .jinja files win over tokenizer_config.json, as in transformers."""
    stated = settings.get("chat_template")
    out: dict[str, str] = {}
    if isinstance(stated, str):
        out["default"] = stated
    elif isinstance(stated, list):
        for entry in stated:
            if not isinstance(entry, dict) or not all(isinstance(entry.get(k), str) for k in _NAMED):
                raise ConfigError(
                    f"{path}/tokenizer_config.json: each chat_template of a list needs a name and a template"
                )
            out[entry["name"]] = entry["template"]
    elif stated is not None:
        raise ConfigError(
            f"{path}/tokenizer_config.json: chat_template must be a string or a list of templates"
        )
    file = path / "chat_template.jinja"
    if file.is_file():
        out["default"] = _text(file)
    for extra in sorted((path / "additional_chat_templates").glob("*.jinja")):
        out[extra.stem] = _text(extra)
    return out


def _optional(path: Path) -> dict[str, Any]:
    return _object(path, _text(path)) if path.is_file() else {}


def _object(path: Path, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path}: is no JSON, perhaps truncated ({error})") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: must hold a JSON object, not {type(value).__name__}")
    return value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from error
