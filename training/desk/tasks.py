# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""Agent-loop tasks: requests over a world, the turns that work their questions off, slips and their mending."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from typing import Any

from training.desk import world as worlds
from training.desk.chains import (
    Chain,
    Maker,
    compute_chain,
    convert_chain,
    fact_chain,
    facts_of_one_place,
    list_chain,
    sql_chain,
)
from training.desk.combined import cell_and_fact, share, two_cells, two_facts, two_prices, two_rows
from training.naming import Split, choose, uncapital
from training.tools import Call
from training.toolsmith import Toolsmith
from training.turns import Conversation, Message, plan, system

SLIPS = 0.3  # share of requests on whose way something goes wrong


def makers(roles: list[str]) -> list[Maker]:
    """The kinds of question these tools can answer, as often as they should come."""
    out: list[Maker] = []
    files = "read" in roles or "search" in roles
    if files:
        out += [fact_chain] * 6 + [two_facts] * 3 + [facts_of_one_place] * 2
    if "query" in roles:
        out += [sql_chain] * 6
    if "query" in roles and files:
        out += [cell_and_fact]
    if "query" in roles and "compute" in roles:
        out += [two_cells] * 2 + [two_rows, share]
    if "read" in roles and "compute" in roles:
        out += [two_prices] * 3
    for role, maker in (("compute", compute_chain), ("convert", convert_chain), ("list", list_chain)):
        if role in roles:
            out.append(maker)
    return out


@dataclass(frozen=True)
class Desk:
    """A world, the tools that show it, and the kinds of question they answer."""

    smith: Toolsmith
    world: worlds.World
    roles: list[str]
    kinds: list[Maker]
    tools: list[dict[str, Any]]

    @classmethod
    def drawn(cls, rng: random.Random, smith: Toolsmith) -> Desk:
        world = worlds.make_world(rng, smith.kinds)
        roles = list(worlds.ROLE_NAMES)
        if rng.random() < 0.5:
            roles = rng.sample(roles, rng.randint(2, 6))
        rng.shuffle(roles)
        tools = worlds.tool_specs(rng, world, roles)
        if rng.random() < 0.3:
            for t in (smith.tool(rng).spec() for _ in range(rng.randint(1, 2))):
                if t["name"] not in {o["name"] for o in tools}:
                    tools.append(t)
            rng.shuffle(tools)
        return cls(smith, world, roles, makers(roles), tools)

    def conversation(self, rng: random.Random) -> Conversation:
        """One to three requests of one to three questions each."""
        talk = _Talk(self, system(rng, self.smith.pools))
        expected: list[str] = []
        asked = 0
        while not asked:
            for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3])):
                count = rng.choice([1, 1, 2] if asked else [1, 1, 1, 2, 2, 3, 3])
                if chains := self._questions(rng, count):
                    expected = talk.request(rng, chains)
                    asked += 1
        return Conversation(
            "desk",
            self.tools,
            talk.messages,
            tuple(expected),
            execute=lambda c: worlds.run_call(self.world, c),
        )

    def _questions(self, rng: random.Random, count: int) -> list[Chain]:
        drawn: list[Chain] = []
        taken: set[str] = set()
        for _ in range(count):
            chain = rng.choice(self.kinds)(rng, self.world, self.roles)
            if not chain or not (told := chain.unplaced()):
                continue
            asked = told.topics or {json.dumps(told.calls[0])}
            if not taken & asked:  # nobody asks the same twice in other words
                taken |= asked
                drawn.append(told)
        return drawn


JOINERS = (
    " ", " ", " Also: ", " And ", " And ", "\n", " I also want to know: ", " Next: ", " Then: ", "\n\n", " Second question: ", " One more: ", " Further: ", "\nAnd: ", " At the same time: ",
)  # fmt: skip
MORE_JOINERS = (
    " Besides: ", " And also: ", " After that: ", " Then also: ", " Another thing: ", " And another question: ", " While you are at it: ", " Another question: ", "\nAlso: ", "\nThen: ",
    " And one thing more: ", " I also need this: ", " What I need too: ", " Moreover: ", " Next question: ", " Oh, and ",
)  # fmt: skip
MORE_ABOVE = (
    "My questions:\n",
    "I need the following:\n",
    "To be found out:\n",
    "Here is what I want to know:\n",
    "",
)
OPENERS = (
    "Please help: ", "Hi! ", "A question: ", "I'd like to know: ", "Tell me: ", "For my report: ", "Look this up: ", "Hello. ", "Can you find out? ",
)  # fmt: skip
MORE_OPENERS = (
    "Good morning. ", "Hello, I have a question. ", "Quick question: ", "Could you look something up? ", "I need some help: ", "Please look into this: ", "One thing I need: ", "Hey! ",
    "Help me with this: ", "Would you check something for me? ", "Sorry to bother you: ", "For a friend: ", "I am writing a report and need to know: ", "Good evening! ", "My question is: ",
    "Do you know this? ", "Have a look, please: ", "Find this out for me: ", "I was asked this today: ", "Let me know: ", "Just a short one: ",
)  # fmt: skip
BETTER = (
    "", "", "I correct the call.", "I try again with the right name.", "That does not help, so I try another way.", "That was not it.", "I look elsewhere.",
    "The name was wrong.", "I do it differently.", "I need another call for that.", "Not there. I go on with something else.",
)  # fmt: skip
SAME_AGAIN = " [The same call gave the same result before. Use it, or do something else.]"


@dataclass
class _Talk:
    """A conversation as it grows. found: what each call brought, by its JSON."""

    desk: Desk
    messages: list[Message]
    found: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.desk.world.read = set()

    def request(self, rng: random.Random, chains: list[Chain]) -> list[str]:
        """Appends the request, the turns that work the chains off stage by stage, and the answer. What a call
        brought once is not asked for again. Returns what the answer must hold."""
        self.messages.append(Message("user", _asked(rng, chains, self.desk.smith.split)))
        todo = [[list(stage) for stage in c.stages] for c in chains]
        # all that can go together, one after the other, or some first: which are left must be seen each time
        how = rng.choices(("all", "one", "some"), (45, 30, 25))[0]
        slips = rng.choice([1, 1, 2, 3]) if rng.random() < SLIPS else 0
        while waiting := [i for i, stages in enumerate(todo) if stages]:
            if how == "one":
                waiting = waiting[:1]
            elif how == "some":
                waiting = sorted(rng.sample(waiting, rng.randint(1, len(waiting))))
            batch: list[tuple[Chain, Call]] = []
            for i in waiting:
                stage = todo[i][0]
                taken = stage[:1] if how == "one" and rng.random() < 0.5 else list(stage)
                batch += [(chains[i], call) for call in taken]
                del stage[: len(taken)]
                if not stage:
                    del todo[i][0]
            new = {key: (c, call) for c, call in batch if (key := json.dumps(call)) not in self.found}
            if new:
                slips -= self._turn(rng, new, slips)
        results = [[self.found[json.dumps(call)] for call in c.calls] for c in chains]
        answers = [c.answer(r) for c, r in zip(chains, results, strict=True)]
        self.messages.append(Message("assistant", ("\n" if rng.random() < 0.1 else " ").join(answers)))
        return [value for c, r in zip(chains, results, strict=True) for value in c.quoted(r)]

    def _turn(self, rng: random.Random, new: dict[str, tuple[Chain, Call]], slips: int) -> int:
        """Calls and their results, perhaps behind a slip or some; how many slips."""
        world, split = self.desk.world, self.desk.smith.split
        calls = [call for _, call in new.values()]
        said = plan(rng, " and ".join(dict.fromkeys(_step_words(world, c, rng) for c in calls)), split, 0.6)
        made = 0
        for _ in range(slips if len(calls) == 1 else 0):
            chain, call = next(iter(new.values()))
            bad = slip(rng, world, self.desk.roles, chain, call)
            if not bad or json.dumps(bad) in self.found or bad == call:
                continue
            made += 1
            result = self._run(bad)
            for again in range(2 if rng.random() < 0.15 else 1):  # what failed once fails twice
                self.messages += [
                    Message("assistant", said, (bad,), trained=False),
                    Message("tool", result + (SAME_AGAIN if again and rng.random() < 0.7 else "")),
                ]
                said = rng.choice(BETTER)
        self.messages.append(Message("assistant", said, tuple(calls)))
        self.messages += [Message("tool", self._run(call)) for call in calls]
        return made

    def _run(self, call: Call) -> str:
        world = self.desk.world
        result = self.found[json.dumps(call)] = worlds.run_call(world, call)
        if world.role(call) == "read":
            world.read |= set(call[1].values()) & set(world.files)
        return result


def _asked(rng: random.Random, chains: list[Chain], split: Split) -> str:
    """The questions as one request."""
    request = chains[0].question
    if len(chains) > 1 and rng.random() < 0.12:
        mark = rng.choice(["{i}. ", "{i}) ", "- ", "({i}) "])
        request = "\n".join(mark.format(i=i) + c.question for i, c in enumerate(chains, 1))
        above = "Three things:\n" if len(chains) == 3 else "Please answer these:\n"
        return choose(rng, ["", "", above], MORE_ABOVE, split) + request
    joiner = choose(rng, JOINERS, MORE_JOINERS, split)
    for c in chains[1:]:
        # a name, which the question may begin with, keeps its capital
        small = joiner in (" And ", " Oh, and ") and re.split(r"\W", c.question)[0] in SMALL
        request += joiner + (uncapital(c.question, ()) if small else c.question)
    return choose(rng, OPENERS, MORE_OPENERS, split) + request if rng.random() < 0.3 else request


def _step_words(world: worlds.World, c: Call, rng: random.Random) -> str:
    role = world.role(c)
    first = next(iter(c[1].values()), "")
    return {
        "list": rng.choice(["list the files", "see which files there are"]),
        "read": f"read {first}",
        "search": rng.choice([f"search for {first}", "search the files"]),
        "query": rng.choice(["query the database", "ask the database"]),
        "compute": rng.choice(["calculate the result", "work out the number", f"compute {first}"]),
        "convert": rng.choice(["convert the value", f"convert {first}", "convert the units"]),
    }[role]


# ── slips ────────────────────────────────────────────────────────────────────────────────────


def slip(rng: random.Random, world: worlds.World, roles: list[str], chain: Chain, call: Call) -> Call | None:
    """A call that leads nowhere where `call` is the one that helps: the wrong tool, place or name. None where there
    is none of the sort drawn."""
    role = world.role(call)
    if rng.random() < 0.3 and (other := _elsewhere(rng, world, roles, chain, role)):
        return other
    kinds = {"read": _misread, "query": _misasked, "search": _missought, "compute": _miscomputed}
    return kinds[role](rng, world, call) if role in kinds else None


def _elsewhere(
    rng: random.Random, world: worlds.World, roles: list[str], chain: Chain, role: str
) -> Call | None:
    """The database asked for what stands in a file, the files for what stands in the database."""
    name, thing = chain.about
    if role in ("read", "search") and "query" in roles and thing.isidentifier():
        table = rng.choice(world.tables)
        key = table.of_kind("key")[0]
        known = name if name and rng.random() < 0.7 else table.cell(rng.choice(table.rows), key)
        return world.call("query", sql=f"SELECT {thing} FROM {table.name} WHERE {key} = '{known}'")
    if role == "query" and "search" in roles and name:
        return world.call("search", text=name)
    return None


def _misread(rng: random.Random, world: worlds.World, call: Call) -> Call | None:
    """Another file, or its name as one would guess it."""
    ((key, value),) = call[1].items()
    stem, _, ending = value.partition(".")
    if not world.enumerated and rng.random() < 0.6:
        guesses = [f"{re.split('[-_]', stem)[-1]}.{ending}", stem, f"{stem}.csv", "notes.txt", value[1:]]
        return call[0], {key: rng.choice(guesses)}
    others = [f for f in world.files if f != value]
    return (call[0], {key: rng.choice(others)}) if others else None


def _misasked(rng: random.Random, world: worlds.World, call: Call) -> Call | None:
    """Another table, a name misspelt or too long."""
    ((key, sql),) = call[1].items()
    table = re.search(r"FROM (\w+)", sql)
    if not table:
        return None
    roll = rng.random()
    others = [t.name for t in world.tables if t.name != table[1]]
    if roll < 0.3 and others and "JOIN" not in sql:
        return call[0], {key: re.sub(rf"\b{table[1]}\b", rng.choice(others), sql)}
    if roll < 0.6 and (named := re.search(r" = '(\w+)'", sql)):
        item = next(t.item for t in world.tables if t.name == table[1])
        longer = rng.choice(
            [f"the {item} {named[1]}", f"{named[1]} {item}", f"the {named[1]}", named[1].lower()]
        )
        return (call[0], {key: sql.replace(f"'{named[1]}'", f"'{longer}'")}) if longer != named[1] else None
    columns = [x for t in world.tables for x in t.columns if re.search(rf"\b{x}\b", sql)]
    if roll < 0.8 and columns:
        column = rng.choice(columns)
        return call[0], {key: re.sub(rf"\b{column}\b", column + rng.choice(["s", "_value", "_id"]), sql)}
    return call[0], {key: sql.replace(table[1], table[1] + "_table")}


def _missought(rng: random.Random, world: worlds.World, call: Call) -> Call | None:
    """Words that no line has."""
    ((key, _),) = call[1].items()
    noun = world.kinds.pools.noun(rng)
    return call[0], {key: rng.choice(["xylophone count", f"number of {noun}zz", f"{noun}zz"])}


def _miscomputed(rng: random.Random, world: worlds.World, call: Call) -> Call | None:
    """Units among the numbers."""
    ((key, expression),) = call[1].items()
    unit = rng.choice(["euros", "kg", "days", "metres", "dollars"])
    return call[0], {key: re.sub(r"(?<![\d.])(\d+(?:\.\d+)?)(?![\d.])", rf"\1 {unit}", expression, count=1)}


SMALL = frozenset(
    [
        "What",
        "Who",
        "Which",
        "When",
        "Where",
        "How",
        "At",
        "From",
        "In",
        "On",
        "Over",
        "For",
        "By",
        "Since",
        "Tell",
        "Give",
        "Name",
        "Find",
        "Count",
        "Look",
        "List",
        "Show",
        "Compute",
        "Add",
        "Multiply",
        "Divide",
        "Convert",
        "Is",
        "Take",
        "Square",
        "Split",
        "Average",
        "Mean",
        "Number",
        "Total",
        "Sum",
        "Of",
        "Among",
        "Visitors",
        "Price",
        "Mass",
        "Worth",
        "Stock",
        "The",
        "Until",
        "Why",
        "Whom",
        "To",
        "Every",
        "After",
        "With",
        "Through",
        "Rank",
        "Sort",
        "Pick",
        "Would",
        "Please",
        "Could",
        "Can",
        "Just",
        "Exactly",
        "So",
        "Well",
        "Now",
        "Let",
        "Do",
        "Get",
        "Say",
        "Whose",
        "If",
        "Suppose",
        "Up",
        "Till",
        "Towards",
        "Behind",
        "Under",
        "As",
        "Work",
        "Check",
        "Subtract",
        "Put",
        "Change",
        "Turn",
        "Calculate",
        "Without",
        "Taking",
        "Only",
        "Names",
        "All",
    ]
)  # words that a question may begin with, small behind "And"
