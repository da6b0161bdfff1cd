# ruff: noqa: E501 -- phrases are data: they read better than wrapped ones
"""Tools over one kind of thing and what is known of it: look one up, list by filters, set one property, update.

What a question asks for is a property that the tool's description names, or one of the kind; a filter is
told from its siblings by what is said of the value (over 20 dollars, before May 3rd, of Ann). resources.txt
has classes of things: a line of nouns with the kind of their key, and a line for each property:

    names | kind | questions | wishes to set it | wishes without a value | more | less | being | told

{x} stands for the thing, {v} for the value; "=50" behind a wish is what it sets in other words. The last part
tells it of a new thing.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.hints import Hint
from training.kinds import Kinds
from training.naming import articles, capital, in_split, plural, uncapital
from training.sketches import Slot, slot

Wordings = dict[str, tuple[dict[str, Any], ...]]
LOOKS = (
    "Current {these} of a {noun}.", "Get a {noun}: {these}.", "Look up the {these} of a {noun}.", "Returns {these} of one {noun}.",
    "Details of a {noun}: {these}.", "Everything on a {noun}, such as {these}.", "Details of a {noun}.", "Get one {noun}.",
)  # fmt: skip
SHOWN = (
    "Show me {x}.",
    "What do we know about {x}?",
    "Look up {x}.",
    "Tell me about {x}.",
    "I need the details of {x}.",
    "The details of {x}, please.",
)
LISTS = (
    "Show me the {plural} {f}.", "List {plural} {f}.", "Are there any {plural} {f}?", "Do we have {plural} {f}?", "All {plural} {f}", "I need the {plural} {f}.",
    "{plural} {f}?", "Find {plural} {f}.", "How many {plural} are there {f}?", "Give me every {noun} {f}.", "Which are the {plural} {f}?", "Any {plural} {f}?",
    "Have we got a {noun} {f}?", "Let me see {plural} {f}.",
)  # fmt: skip
COUNTED = (
    "Show me {limit} {plural} {f}.", "The first {limit} {plural} {f}, please.", "Give me {limit} {plural} {f}.", "{limit} {plural} {f}, no more.", "List at most {limit} {plural} {f}.",
)  # fmt: skip
UNFILTERED = (
    "List all {plural}.",
    "What {plural} do we have?",
    "Show me the {plural}.",
    "Which {plural} are there?",
    "All {plural}, please",
)
ABOUT_LIST = (
    "List {plural}.",
    "Find {plural} by what is known of them.",
    "All {plural}, filtered if wanted.",
    "Search {plural}.",
    "{plural} that fit some filters.",
)
ABOUT_SET = (
    "Set the {a} of a {noun}.",
    "Change the {a} of a {noun}.",
    "Gives a {noun} another {a}.",
    "Update the {a}.",
    "Sets {a}.",
)
ABOUT_UPDATE = (
    "Update a {noun}.",
    "Change what is known of a {noun}.",
    "Edit a {noun}: {these}.",
    "Changes {these} of a {noun}.",
    "Set one or more properties of a {noun}.",
)
SOUGHT = (
    "Is there a {noun} about {query}?", "Have we got anything on {query}?", "{plural} about {query}", "What did we ever do on {query}?", "Find the {noun} with {query} in it.",
    "I'm looking for a {noun} on {query}.", "Did anyone make a {noun} about {query}?", "Which {plural} mention {query}?", "Where did we speak about {query}?", "Anything on {query}?",
    "Search the {plural} for {query}.", "I remember a {noun} about {query}.", "What do we have about {query}?",
)  # fmt: skip
SOUGHT_OF = (
    "Did {author} say anything about {query}?", "What has {author} made about {query}?", "Is there a {noun} by {author} about {query}?", "{author} on {query}", "Find what {author} wrote about {query}.",
    "Has {author} ever mentioned {query}?", "{plural} of {author} about {query}",
)  # fmt: skip
ABOUT_SEARCH = (
    "Search {plural} by words.",
    "Find what was said in {plural}.",
    "Look for a {noun} about something.",
    "Full text search of {plural}.",
    "Searches the {plural}.",
)
THEIRS = (
    "Show me {p}'s {plural} {f}.",
    "Does {p} have any {plural} {f}?",
    "{p}'s {plural} {f}",
    "How many of {p}'s {plural} are there {f}?",
    "Which {plural} {f} does {p} have?",
)
NEW = (
    "New {noun} {f}", "Create a {noun} {f}.", "Add a {noun} {f}.", "We have a new {noun} {f}.", "Put in a {noun} {f}.", "Make a {noun} {f}.", "There's a new {noun} {f}.", "Enter a {noun} {f}, please.",
    "Set up a {noun} {f}.", "I need a new {noun} {f}.", "Register a {noun} {f}.", "Let's have another {noun} {f}.", "Please add another {noun} {f}.",
)  # fmt: skip
ABOUT_NEW = (
    "Create a {noun}.",
    "Adds a {noun}.",
    "Register a new {noun}.",
    "New {noun}.",
    "Enter a {noun} with what is known of it.",
)
ELSE = (
    "Print {x}.", "Translate {x}.", "Delete {x}.", "Make a copy of {x}.", "Send {x} to my printer.", "Sign {x} for me.", "Insure {x}.", "Take a photo of {x}.", "Merge {x} with the last one.",
    "Encrypt {x}.", "Export {x} to a spreadsheet.", "Draw a chart of {x}.", "Write a poem about {x}.", "Back up {x}.", "Undo what I did to {x}.", "Tell everybody about {x}.", "Weld {x} together.",
    "Edit the noise out of {x}.", "Proofread {x}.", "Find a buyer for {x}.", "Guess what happens to {x} next year.", "Call whoever made {x}.", "Put {x} in a frame.", "Sing about {x}.", "Scan {x} for viruses.",
    "Why do people like {x}?", "Is there a better one than {x}?", "What would my mother say about {x}?", "Get {x} signed.", "Roll {x} back to last week.", "Compress {x}.", "Turn {x} into a video.",
)  # fmt: skip


@dataclass(frozen=True)
class Property:
    names: tuple[str, ...]
    kind: str
    asked: tuple[str, ...]
    wished: tuple[str, ...]
    vague: tuple[str, ...]
    more: tuple[str, ...]
    less: tuple[str, ...]
    being: tuple[str, ...]
    told: tuple[str, ...]

    @property
    def key(self) -> str:
        return self.names[0]

    @property
    def word(self) -> str:
        return self.key.replace("_", " ")

    def line(self, optional: bool) -> Slot:
        return _slot(self.names, self.kind, f"The {self.word}.", optional)

    def filters(self) -> Iterable[tuple[Slot, tuple[str, ...]]]:
        """Each limit on it as an optional parameter, and how it is told."""
        key, dated = self.key, self.kind == "date"
        least = (
            (f"{key}_after", "after", "since", "from_date")
            if dated
            else (f"min_{key}", f"{key}_min", f"{key}_over", f"{key}_from")
        )
        most = (
            (f"{key}_before", "before", "until", "to_date")
            if dated
            else (f"max_{key}", f"{key}_max", f"{key}_under", f"{key}_to")
        )
        if self.more:
            yield (
                _slot(
                    least,
                    self.kind,
                    f"Only {'after this date' if dated else 'above this'} ({self.word}).",
                    True,
                ),
                self.more,
            )
        if self.less:
            yield (
                _slot(
                    most,
                    self.kind,
                    f"Only {'before this date' if dated else 'below this'} ({self.word}).",
                    True,
                ),
                self.less,
            )
        if self.being:
            yield _slot(self.names, self.kind, f"Only with this {self.word}.", True), self.being


@dataclass(frozen=True)
class Class:
    nouns: tuple[str, ...]
    key: str
    properties: tuple[Property, ...]


def _slot(names: Iterable[str], kind: str, about: str, optional: bool) -> Slot:
    first, *rest = names
    return slot(f"{','.join([first + '?' * optional, *rest])} {kind} # {about}")


def read(path: Path) -> list[Class]:
    classes = []
    for block in path.read_text().strip().split("\n\n"):
        head, *lines = block.split("\n")
        nouns, key = head.split(" | ")
        properties = []
        for line in lines:
            names, kind, *told = (
                [part.strip() for part in line.split("|")]
                if "enum" not in line and "said" not in line
                else _with_options(line)
            )
            forms = [tuple(f.strip() for f in part.split(" ; ") if f.strip()) for part in told]
            properties.append(Property(tuple(names.split(",")), kind, *forms))
        classes.append(Class(tuple(nouns.split()), key, tuple(properties)))
    return classes


def _with_options(line: str) -> list[str]:
    """The parts of a line whose kind holds strokes without spaces around them."""
    return [part.strip() for part in re.split(r" \|(?= |$)", line)]


RIVALS = {"locale": {"language"}, "market_code": {"country"}, "company": {"owner"}, "supplier": {"origin"}}
"""Properties of which the same is said as of another, and that other: never known of one thing both."""
CLASSES = read(Path(__file__).with_name("resources.txt"))


def family(rng: random.Random, kinds: Kinds, count: int) -> tuple[list[Hint], list[Hint]]:
    """So many tools over one kind of thing at most, and what is asked of none of them."""
    while True:
        one = rng.choice(CLASSES)
        noun = rng.choice(one.nouns)
        if in_split(noun, kinds.split):
            break
    properties = rng.sample(one.properties, rng.choice([3, 3, 4, 5]))
    known = {p.key for p in properties}
    properties = [p for p in properties if not known & RIVALS.get(p.key, set())]
    made = Family(rng, one, noun, tuple(properties))
    looks, setters = [made.get(), made.list()], [made.set(p) for p in made.properties]
    if any(p.key == "title" for p in one.properties) and rng.random() < 0.6:
        looks.insert(rng.randrange(3), made.search())
    if rng.random() < 0.5:
        looks.insert(rng.randrange(3), made.create())
    if rng.random() < 0.3:
        looks, setters = [*looks, made.update()], []
    rng.shuffle(setters)
    kept = [*looks, *setters][: max(count, 2)] if rng.random() < 0.7 else [*setters[:2], *looks][:count]
    return rng.sample(kept, len(kept)), [made.unserved(), *(hint for hint in setters if hint not in kept)]


@dataclass(frozen=True)
class Family:
    rng: random.Random
    one: Class
    noun: str
    properties: tuple[Property, ...]

    @property
    def words(self) -> Mapping[str, str]:
        return {"noun": self.noun, "plural": plural(self.noun)}

    def key(self) -> Slot:
        noun, kind = self.noun, self.one.key
        names = (
            [f"{noun}_id", "id", "number", "code", noun]
            if kind == "id"
            else [noun, "number", f"{noun}_number", f"{noun}_id", "no"]
        )
        if kind.startswith("pool"):
            names = [noun, "name", "person", f"{noun}_name", "who"]
        return _slot(
            ["key", *names],
            kind,
            self.rng.choice([f"The {noun}.", f"Which {noun}.", f"Identifies the {noun}."]),
            False,
        )

    def thing(self, slot: str = "key") -> str:
        """How it is spoken of: by its key alone or as a tank 4."""
        roll, noun = self.rng.random(), self.noun
        if self.one.key.startswith("int"):
            return (
                f"{{{slot}}}"
                if roll < 0.12
                else f"number {{{slot}}}"
                if roll < 0.25
                else f"{noun} number {{{slot}}}"
                if roll < 0.35
                else f"{noun} {{{slot}}}"
            )
        return (
            f"{noun} {{{slot}}}"
            if roll < (0.12 if self.one.key.startswith("pool") else 0.4)
            else f"{{{slot}}}"
        )

    def hint(
        self,
        names: Iterable[str],
        abouts: Iterable[str],
        slots: Iterable[Slot],
        wordings: Wordings,
        unfinished: Mapping[str, str],
        pair: str = "",
    ) -> Hint:
        """pair: the kind of the values {c} and {d} of wordings for two things."""
        words = {**self.words, "these": self._listed()}
        helpers = [_slot([name], self.one.key, "", False) for name in "ab"]
        helpers += [_slot([name], pair, "", False) for name in "cd" if pair]
        return Hint(
            ("resource",),
            tuple(_filled(name, words) for name in names),
            tuple(capital(articles(_filled(about, words))) for about in abouts),
            tuple(slots),
            tuple(helpers),
            {_filled(text, words): calls for text, calls in wordings.items()},
            {_filled(text, words): lacks for text, lacks in unfinished.items()},
            words,
        )

    def _listed(self) -> str:
        words = [p.word for p in self.properties]
        return f"{', '.join(words[:-1])} and {words[-1]}"

    def get(self) -> Hint:
        wordings: Wordings = {form.replace("{x}", self.thing()): ({},) for form in SHOWN}
        unfinished = {}
        for p in self.properties:
            for form in p.asked:
                wordings[form.replace("{x}", self.thing())] = ({},)
                if self.rng.random() < 0.3:
                    unfinished[form.replace("{x}", "the {noun}")] = "key"
            form = self.rng.choice(p.asked)
            if re.search(r"[^.?!,]*\{x\}\?$", form) and form.count("?") == 1:
                one, other = (
                    form[:-1].replace("{x}", self.thing("a")),
                    uncapital(form, ()).replace("{x}", self.thing("b")),
                )
                wordings[f"{one}, and {other}"] = ({"key": "{a}"}, {"key": "{b}"})
        wordings["Compare {a} and {b}."] = ({"key": "{a}"}, {"key": "{b}"})
        names = (
            "get_{noun}",
            "{noun}_details",
            "{plural}.get",
            "show_{noun}",
            "lookup_{noun}",
            "{noun}_info",
        )
        return self.hint(names, LOOKS, [self.key()], wordings, unfinished)

    def search(self) -> Hint:
        """By words; of one author, where the tool takes it."""
        query = _slot(["query", "words", "text", "topic"], "topic", "Words to look for.", False)
        (author,) = (p for p in self.one.properties if p.key == "author")
        wordings: Wordings = {form: ({},) for form in SOUGHT}
        slots = [query]
        if self.rng.random() < 0.5:
            slots.append(author.line(True))
            wordings |= {form: ({},) for form in SOUGHT_OF}
        return self.hint(
            ("search_{plural}", "find_{noun}", "{plural}.search", "{noun}_search", "look_for_{noun}"),
            ABOUT_SEARCH,
            slots,
            wordings,
            {},
        )

    def create(self) -> Hint:
        """With two to four of what is known of it; the first one or two must be told."""
        told = [p for p in self.properties if p.told][:4]
        must, may = told[: self.rng.choice([1, 2])], told[2:] if len(told) > 2 else []
        must = told[: len(told) - len(may)]
        wordings: Wordings = {}
        for _ in range(14):
            parts = [*must, *self.rng.sample(may, self.rng.randint(0, len(may)))]
            self.rng.shuffle(parts)
            phrases = [self.rng.choice(p.told).replace("{v}", f"{{{p.key}}}") for p in parts]
            text = ", ".join(phrases) if self.rng.random() < 0.4 else " ".join(phrases)
            wordings[self.rng.choice(NEW).replace("{f}", text)] = ({},)
        lacking = {
            self.rng.choice(NEW).replace(
                "{f}", " ".join(self._phrase(p) for p in must if p is not missing)
            ): missing.key
            for missing in must
            if len(must) > 1
        }
        names = ("create_{noun}", "add_{noun}", "new_{noun}", "{plural}.create", "register_{noun}")
        slots = [*(p.line(False) for p in must), *(p.line(True) for p in may)]
        return self.hint(names, ABOUT_NEW, slots, wordings, lacking)

    def _phrase(self, p: Property) -> str:
        return self.rng.choice(p.told).replace("{v}", f"{{{p.key}}}")

    def unserved(self) -> Hint:
        """What people also want of such things, which no tool here does."""
        wordings: Wordings = {form.replace("{x}", self.thing()): ({},) for form in ELSE}
        return self.hint(("do_else",), ("Anything else.",), [self.key()], wordings, {})

    def set(self, p: Property) -> Hint:
        return self.hint(
            (
                f"set_{{noun}}_{p.key}",
                f"change_{p.key}",
                f"{{plural}}.{p.key}",
                f"update_{{noun}}_{p.key}",
                f"set_{p.key}",
            ),
            [about.replace("{a}", p.word) for about in ABOUT_SET],
            [self.key(), p.line(False)],
            self._wishes(p) | self._two(p),
            {
                **{form.replace("{x}", self.thing()): p.key for form in p.vague},
                **{
                    form.replace("{x}", "the {noun}").replace("{v}", f"{{{p.key}}}"): "key"
                    for form in p.wished
                    if " =" not in form
                },
            },
            p.kind,
        )

    def update(self) -> Hint:
        wordings: Wordings = {}
        for p in self.properties:
            wordings |= self._wishes(p)
        one = self.rng.choice(self.properties)
        wordings |= self._two(one)
        return self.hint(
            ("update_{noun}", "edit_{noun}", "{plural}.update", "change_{noun}", "modify_{noun}"),
            ABOUT_UPDATE,
            [self.key(), *(p.line(True) for p in self.properties)],
            wordings,
            {"Update the {noun}: " + f"{p.word} {{{p.key}}}.": "key" for p in self.properties},
            one.kind,
        )

    def _wishes(self, p: Property) -> Wordings:
        wordings: Wordings = {}
        for form in p.wished:
            text, _, told = form.partition(" =")
            calls: dict[str, Any] = {p.key: json.loads(told)} if told else {}
            wordings[text.replace("{x}", self.thing()).replace("{v}", f"{{{p.key}}}")] = (calls,)
        form = self.rng.choice(p.wished)
        if " =" not in form and not re.search(
            r"\{x\} (is|has|gets|was|wants|costs|needs|goes)|\{v\} (is|has)", form
        ):
            pair = "{plural} {a} and {b}" if self.one.key.startswith("int") else "{a} and {b}"
            both = form.replace("{x}", pair).replace("{v}", f"{{{p.key}}}")
            wordings[both] = ({"key": "{a}"}, {"key": "{b}"})
        return wordings

    def _two(self, p: Property) -> Wordings:
        """Another value for each of two things."""
        wordings: Wordings = {}
        for form in self.rng.sample(p.wished, 3):
            if " =" in form:
                continue
            first = form.replace("{x}", self.thing("a")).replace("{v}", "{c}").rstrip(".")
            then = uncapital(form, ()).replace("{x}", self.thing("b")).replace("{v}", "{d}")
            wordings[first + self.rng.choice([" and ", ", and ", ". And "]) + then] = (
                {"key": "{a}", p.key: "{c}"},
                {"key": "{b}", p.key: "{d}"},
            )
        return wordings

    def list(self) -> Hint:
        filters = [one for p in self.properties for one in p.filters()]
        filters = self.rng.sample(filters, min(len(filters), self.rng.choice([2, 3, 4, 5])))
        limit = _slot(["limit", "count", "top", "max_results"], "int 2 50", "How many at most.", True)
        limited = self.rng.random() < 0.5
        wordings: Wordings = {text: ({},) for text in UNFILTERED}
        for one, told in filters:
            for form in self.rng.sample(LISTS, 6):
                wordings[_told(form, one, self.rng.choice(told))] = ({},)
            if limited:
                for form in self.rng.sample(COUNTED, 2):
                    wordings[_told(form, one, self.rng.choice(told))] = ({},)
        for _ in range(3 if len(filters) > 1 else 0):
            (one, told), (other, also) = self.rng.sample(filters, 2)
            phrases = (
                _told("{f}", one, self.rng.choice(told))
                + self.rng.choice([" and ", " and ", ", "])
                + _told("{f}", other, self.rng.choice(also))
            )
            wordings[self.rng.choice(LISTS).replace("{f}", phrases)] = ({},)
        people = [one for one, _ in filters if one.kind == "pool"]
        for one, told in filters if people else ():
            if one.kind != "pool":
                form = self.rng.choice(THEIRS).replace("{p}", f"{{{people[0].key}}}")
                wordings[_told(form, one, self.rng.choice(told))] = ({},)
        names = (
            "list_{plural}",
            "find_{plural}",
            "{plural}.list",
            "get_{plural}",
            "query_{plural}",
        )
        return self.hint(
            names, ABOUT_LIST, [*(one for one, _ in filters), *([limit] if limited else [])], wordings, {}
        )


def _told(form: str, one: Slot, phrase: str) -> str:
    return form.replace("{f}", phrase.replace("{v}", f"{{{one.key}}}"))


def _filled(text: str, words: Mapping[str, str]) -> str:
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", word)
    return text
