"""Reads permissively licensed packages into one small file of pools: API operations, values, words, prose.

    python -m training.sources --debian DIR --out build/nano

DIR holds unpacked Debian packages (`apt-get download` + `dpkg -x`): python3.11-doc (PSF), postgresql-doc-15
(PostgreSQL licence), sqlite3-doc (public domain), wordnet-base (WordNet licence). From the Python
environment:
google-api-python-client and botocore (Apache-2.0, API descriptions), faker and mimesis (MIT, values), and the
docstrings of the packages in PROSE_PACKAGES (BSD, MIT, Apache-2.0). Writes pools.json.gz and prose.txt.gz.
Knows nothing of tokens or of how requests are phrased.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import html
import importlib.util
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training.pools import without_crude

PROSE_PACKAGES = {
    "numpy": "BSD-3-Clause",
    "torch": "BSD-3-Clause",
    "sympy": "BSD-3-Clause",
    "networkx": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "pydantic": "MIT",
    "rich": "MIT",
    "anyio": "MIT",
    "hypothesis": "MPL-2.0 (docstrings read only when listed here)",
    "transformers": "Apache-2.0",
    "huggingface_hub": "Apache-2.0",
}
PROSE_EXCLUDED = {"hypothesis"}  # not permissive enough; named so that the reason is on record
LOCALES = [
    "en",
    "en",
    "en",
    "en",
    "de",
    "fr",
    "es",
    "it",
    "pl",
    "ru",
    "ja",
    "zh",
    "ko",
    "el",
    "tr",
    "pt-br",
    "sv",
    "cs",
    "uk",
    "nl",
    "da",
    "fi",
]


def clean(text: str) -> str:
    """Markup and white space removed."""
    text = html.unescape(re.sub(r"<[^>]+>", " ", text))
    return re.sub(r"\s+", " ", text).strip()


def first_sentence(text: str, limit: int) -> str:
    """The first sentence, cut at a word border to at most `limit` characters."""
    text = clean(text)
    match = re.match(r"(.+?[.!?])(?:\s|$)", text)
    text = match.group(1) if match else text
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0]


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise SystemExit(f"training.sources needs the package {name}: pip install it first")
    return Path(found.origin).parent


# ── API operations ───────────────────────────────────────────────────────────────────────────

_BOTO = {
    "string": "string",
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "timestamp": "date",
}


def boto_operations(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Operations of every AWS service: name, service, description, parameters."""
    root = _package("botocore") / "data"
    for path in sorted(root.glob("*/*/service-2.json*")):
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        model = json.loads(raw)
        shapes = model["shapes"]
        for name, operation in sorted(model["operations"].items()):
            about = first_sentence(operation.get("documentation", ""), 110)
            shape = shapes.get(operation.get("input", {}).get("shape", ""), {})
            if len(about) < 12 or not about.isascii():
                continue
            params = []
            required = set(shape.get("required", []))
            for key, member in shape.get("members", {}).items():
                param = _boto_param(shapes, key, member, key in required)
                if param:
                    params.append(param)
            params.sort(key=lambda p: (not p["required"], rng.random()))
            yield {"name": name, "group": path.parts[-3], "about": about, "params": params[:8]}


def _boto_param(
    shapes: dict[str, Any], key: str, member: dict[str, Any], required: bool
) -> dict[str, Any] | None:
    target = shapes[member["shape"]]
    param: dict[str, Any] = {"name": key, "required": required}
    param["about"] = first_sentence(member.get("documentation", ""), 90)
    if target["type"] == "list":
        item = shapes[target["member"]["shape"]]
        if item["type"] != "string":
            return None
        param["type"] = "array"
        if "enum" in item:
            param["enum"] = item["enum"][:6]
    elif target["type"] in _BOTO:
        param["type"] = _BOTO[target["type"]]
        if "enum" in target:
            param["enum"] = target["enum"][:6]
    else:
        return None
    return param


def google_operations(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Methods of every Google API in the discovery cache."""
    root = _package("googleapiclient") / "discovery_cache" / "documents"
    seen = set()
    for path in sorted(root.glob("*.json")):
        api = json.loads(path.read_text())
        schemas = api.get("schemas", {})
        stack = [api]
        while stack:
            node = stack.pop()
            stack += node.get("resources", {}).values()
            for name, method in sorted(node.get("methods", {}).items()):
                about = first_sentence(method.get("description", ""), 110)
                if len(about) < 12 or not about.isascii() or about in seen:
                    continue
                seen.add(about)
                parts = method["id"].split(".")
                params = []
                fields = dict(method.get("parameters", {}))
                body = schemas.get(method.get("request", {}).get("$ref", ""), {})
                for key, value in body.get("properties", {}).items():
                    fields.setdefault(key, value)
                for key, value in fields.items():
                    param = _google_param(key, value)
                    if param:
                        params.append(param)
                params.sort(key=lambda p: (not p["required"], rng.random()))
                yield {
                    "name": "_".join(dict.fromkeys([name, *parts[-2:-1]])),
                    "group": api["name"],
                    "about": about,
                    "params": params[:8],
                }


def _google_param(key: str, value: dict[str, Any]) -> dict[str, Any] | None:
    about = first_sentence(value.get("description", ""), 90)
    if "eprecated" in about or "utput only" in about or not about.isascii():
        return None
    kind = value.get("type")
    items = value.get("items", {})
    param: dict[str, Any] = {"name": key, "about": about, "required": bool(value.get("required"))}
    if value.get("repeated") or (kind == "array" and items.get("type") == "string"):
        param["type"] = "array"
        source = items if kind == "array" else value
    elif kind in ("string", "integer", "number", "boolean"):
        param["type"] = kind
        source = value
        if value.get("format") == "google-datetime":
            param["type"] = "date"
        elif value.get("format") in ("int64", "uint64"):
            param["type"] = "integer"
    else:
        return None
    if "enum" in source:
        param["enum"] = [e for e in source["enum"] if not e.endswith("UNSPECIFIED")][:6]
        if len(param["enum"]) < 2:
            return None
    return param


# ── values ───────────────────────────────────────────────────────────────────────────────────


def value_pools(seed: int) -> dict[str, list[str]]:
    """Names, places, companies, titles… in many languages, from faker and mimesis."""
    from faker import Faker
    from mimesis import Address, Code, Finance, Food, Hardware, Person, Text
    from mimesis.locales import Locale

    fake = Faker("en_US")
    fake.seed_instance(seed)
    pools: dict[str, set[str]] = {}

    def add(kind: str, value: object, limit: int = 40) -> None:
        text = clean(str(value))
        if 1 < len(text) <= limit:
            pools.setdefault(kind, set()).add(text)

    for code in LOCALES:
        locale = Locale(code)
        person, address = Person(locale, seed=seed), Address(locale, seed=seed)
        finance, text = Finance(locale, seed=seed), Text(locale, seed=seed)
        plain = code == "en"
        for _ in range(500 if plain else 300):
            add("person" if plain else "person_world", person.full_name())
            add("city" if plain else "city_world", address.city())
            add("company" if plain else "company_world", finance.company())
            add("country" if plain else "country_world", address.country())
            add("job", person.occupation() if plain else "")
            if not plain:
                add("word_world", text.word(), 20)
    food, hardware = Food(seed=seed), Hardware(seed=seed)
    codes = Code(seed=seed)
    for _ in range(1500):
        add("person", fake.name())
        add("first", fake.first_name())
        add("last", fake.last_name())
        add("city", fake.city())
        add("company", fake.company())
        add("street", fake.street_address())
        add("address", fake.address().replace("\n", ", "), 60)
        add("job", fake.job())
        add("phrase", fake.catch_phrase())
        add("slogan", fake.bs())
        add("colour", fake.color_name())
        add("dish", food.dish())
        add("fruit", food.fruit())
        add("vegetable", food.vegetable())
        add("spice", food.spices())
        add("drink", food.drink())
        add("device", hardware.phone_model())
        add("cpu", hardware.cpu())
        add("user", fake.user_name())
        add("domain", fake.domain_name())
        add("isbn", codes.isbn())
        add("sentence", fake.sentence(nb_words=7), 60)
        add("country", fake.country())
    return {kind: sorted(values) for kind, values in sorted(pools.items())}


def _wordnet_lines(debian: Path, file: str) -> list[str]:
    return (debian / "usr" / "share" / "wordnet" / file).read_text(errors="replace").splitlines()


def _glosses(debian: Path, part: str) -> Iterator[tuple[str, str]]:
    """(offset, gloss) of every entry: its meanings and its examples in quotes, apart by semicolons."""
    for line in _wordnet_lines(debian, f"data.{part}"):
        if line[:1].isdigit():
            head, _, gloss = line.partition(" | ")
            yield head.split()[0], gloss


def wordnet(debian: Path) -> dict[str, Any]:
    """Lemmas with their first gloss, most used first: {"noun": [[word, gloss], …], …}."""
    out: dict[str, Any] = {}
    for part in ("noun", "verb", "adj"):
        glosses = {offset: gloss.split(";")[0].strip() for offset, gloss in _glosses(debian, part)}
        rows = []
        for line in _wordnet_lines(debian, f"index.{part}"):
            if line.startswith(" "):
                continue
            fields = line.split()
            pointers = int(fields[3])
            tagged = int(fields[5 + pointers])
            offset = fields[6 + pointers]
            word = fields[0].replace("_", " ")
            gloss = glosses.get(offset, "")
            if tagged >= 1 and word.isascii() and len(word) > 2 and 8 < len(gloss) < 110:
                rows.append((tagged, word, gloss))
        rows.sort(key=lambda r: (-r[0], r[1]))
        out[part] = [[word, gloss] for _, word, gloss in rows[:9000]]
    return out


_STATES = re.compile(
    r"\b(is|was|are|were|has|had|have|will|would|can|could|did|does|do|made|came|went|took|got|gave|said|saw|felt|left|kept|ran"
    r"|put|grew|won|wrote|knew|fell|held|led|met|lost|brought|found|stood|sat|broke|told|rose|spoke|drove|\w+ed)\b"
)
_SUBJECT = re.compile(
    r"(the|an?|he|she|it|they|we|i|his|her|their|my|our|this|that|there|these|those|some|all|everyone|nobody|many|most)\b",
    re.IGNORECASE,
)


def sentences(debian: Path) -> list[str]:
    """Examples in the dictionary's glosses that state something: no digits, no questions, 4 to 12 words."""
    found: dict[str, None] = {}
    for part in ("noun", "verb", "adj", "adv"):
        for _, gloss in _glosses(debian, part):
            for example in re.findall(r'"([^"]*)"', gloss):
                plain = re.fullmatch(r"[A-Za-z',. -]+", example) and 4 <= len(example.split()) <= 12
                if plain and _SUBJECT.match(example) and _STATES.search(example):
                    found[example[0].upper() + example[1:].rstrip(".") + "."] = None
    return list(found)


# ── prose ────────────────────────────────────────────────────────────────────────────────────


def prose(debian: Path, limit: int) -> Iterator[str]:
    """Documents of plain text, at most `limit` characters each; long ones are cut at paragraph borders."""
    pages: list[Path] = []
    for pattern in ("python3.11/html", "postgresql-doc-15/html", "sqlite3"):
        pages += sorted((debian / "usr/share/doc" / pattern).rglob("*.html"))
    for page in pages:
        text = page.read_text(errors="replace")
        text = re.sub(r"(?s)<(script|style|head|nav)\b.*?</\1>", " ", text)
        blocks = re.split(r"(?i)</(?:p|pre|li|h\d|dt|dd|tr|div)>", text)
        lines = []
        for block in blocks:
            if "<pre" in block:
                line = html.unescape(re.sub(r"<[^>]+>", "", block)).strip("\n")
            else:
                line = clean(block)
            if len(line) > 25:
                lines.append(line)
        yield from _cut(lines, limit)
    for name, licence in PROSE_PACKAGES.items():
        if name in PROSE_EXCLUDED or importlib.util.find_spec(name) is None:
            continue
        assert licence
        for path in sorted(_package(name).rglob("*.py")):
            try:
                tree = ast.parse(path.read_text(errors="replace"))
            except SyntaxError:
                continue
            for node in ast.walk(tree):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    doc = ast.get_docstring(node)
                    if doc and len(doc) > 200:
                        yield from _cut(doc.split("\n\n"), limit)


def _cut(paragraphs: list[str], limit: int) -> Iterator[str]:
    kept: list[str] = []
    size = 0
    for paragraph in paragraphs:
        if kept and size + len(paragraph) > limit:
            yield "\n".join(kept)
            kept, size = [], 0
        kept.append(paragraph[:limit])
        size += len(paragraph)
    if size > 200:
        yield "\n".join(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--debian", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--operations", type=int, default=16000)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(args.seed)
    operations = [*boto_operations(rng), *google_operations(rng)]
    rng.shuffle(operations)
    found = len(operations)
    pools = without_crude(
        {
            "operations": operations[: args.operations],
            "values": value_pools(args.seed),
            "wordnet": wordnet(args.debian),
            "sentences": sentences(args.debian),
        }
    )
    with gzip.open(args.out / "pools.json.gz", "wt") as out:
        json.dump(pools, out, ensure_ascii=False, separators=(",", ":"))
    documents = list(prose(args.debian, 6000))
    rng.shuffle(documents)
    with gzip.open(args.out / "prose.txt.gz", "wt") as out:
        out.write("\x00".join(documents))
    print(
        json.dumps(
            {
                "operations": found,
                "kept": len(pools["operations"]),
                "values": {k: len(v) for k, v in pools["values"].items()},
                "words": {k: len(v) for k, v in pools["wordnet"].items()},
                "sentences": len(pools["sentences"]),
                "documents": len(documents),
                "prose_chars": sum(map(len, documents)),
            }
        )
    )


if __name__ == "__main__":
    main()
