# ruff: noqa: E501 -- sentences and tables are data: one a line reads better than wrapped ones
"""Whole conversations: system text, tools, turns. What the model is trained on and tested with. Knows no tokens.

Kinds of conversation: call (one turn of one or several calls), run (calls, results, answer, perhaps a second
request), desk (agent-loop tasks that build on results), decline, clarify, chat.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from training.desk import world as worlds
from training.desk.chains import Chain, Maker, draw_chain, makers
from training.kinds import SCALARS, Kinds, Param, Pools, Split, Spoken, pick, words
from training.replies import failure, result, wrong
from training.several import together
from training.talk import DECLINES, plain_question, small_talk
from training.tooling import Call, Task, Tool, Toolsmith, arguments, parallel, plain, several, single


@dataclass
class Message:
    """role: system, user, assistant, tool. trained: whether the loss counts this assistant message."""

    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    trained: bool = True


@dataclass
class Conversation:
    kind: str
    tools: list[dict[str, Any]]
    messages: list[Message]
    expected: tuple[str, ...] = ()
    """Strings the final answer must hold; for runs."""
    execute: Callable[[Call], str] | None = None
    """Runs a call of the conversation's world; None where results are made up."""
    tags: tuple[str, ...] = field(default=())
    branches: tuple[list[Message], ...] = ()
    """Other continuations of `messages`, each as if it stood alone behind them."""


SYSTEMS = [
    "You are a helpful assistant.",
    "You are a helpful assistant with tools.",
    "Answer with the help of the tools.",
    "Use the tools when they help.",
    "You are an agent. Call tools, read their results, then answer.",
    "Be brief.",
    "You are a careful assistant. Use a tool for every fact.",
    "Call a function if one fits the request; otherwise say so.",
    "Help the user.",
    "You answer questions with the given tools. Say which value you found.",
    "You have access to functions. Do not invent arguments.",
    "Solve the task step by step with the tools.",
]
PLANS = [
    "I will {p}.",
    "I'll {p}.",
    "First I {p}.",
    "Let me {p}.",
    "I need to {p}.",
    "To answer this, I {p}.",
    "Plan: {p}.",
    "The next step is to {p}.",
]


def _system(rng: random.Random, pools: Pools) -> list[Message]:
    roll = rng.random()
    if roll < 0.35:
        return []
    if roll < 0.9:
        return [Message("system", rng.choice(SYSTEMS))]
    return [
        Message(
            "system",
            f"You are the assistant of {pools.value(rng, 'company')}. {rng.choice(SYSTEMS)} {pools.value(rng, 'slogan').capitalize()}.",
        )
    ]


def _plan(rng: random.Random, text: str, split: Split, chance: float = 0.55) -> str:
    if rng.random() > chance:
        return ""
    return pick(rng, PLANS, split).format(p=text.strip().rstrip("."))


DESK = 0.3  # share of agent-loop tasks


class Writer:
    """Writes conversations of one split."""

    def __init__(self, pools: Pools, split: Split) -> None:
        self.pools = pools
        self.split: Split = split
        self.kinds = Kinds(pools, split)
        self.smith = Toolsmith(self.kinds)

    def conversation(self, rng: random.Random) -> Conversation:
        """One conversation, with tools of its own."""
        if rng.random() < DESK:
            return self.desk(rng)
        return self._kind(rng)(rng, self.toolset(rng))

    def bundle(self, rng: random.Random, most: int = 16) -> Conversation:
        """One tool set with several conversations behind it, as branches: most of what a model must read is the
        tools, and here they are read once for all. Right and declined requests of the same tools meet.
        """
        if rng.random() < DESK:
            place = _Desk.drawn(rng, self)
            made = [self._at_desk(rng, place) for _ in range(min(most, rng.randint(4, 8)))]
        else:
            given = self.toolset(rng)
            made = [self._kind(rng)(rng, given) for _ in range(min(most, rng.randint(4, 8 + len(given))))]
        first = made[0].messages
        start = first[:1] if first[0].role == "system" else []
        branches = [[m for m in c.messages if m.role != "system"] for c in made]
        return Conversation("bundle", made[0].tools, start, branches=tuple(branches))

    def _kind(self, rng: random.Random) -> Callable[[random.Random, list[Tool]], Conversation]:
        kinds = (self.calls, self.run, self.decline, self.clarify, self.chat)
        return rng.choices(kinds, (53, 19, 17, 5, 6))[0]

    # ── tool sets ──

    def toolset(self, rng: random.Random) -> list[Tool]:
        """One to six tools, sometimes many: of any topics, or some that must be told apart."""
        count = rng.choice([1, 1, 2, 2, 3, 4, 6]) if rng.random() < 0.97 else rng.randint(9, 16)
        alike = self.smith.siblings(rng, min(count, 4)) if count > 1 and rng.random() < 0.5 else []
        tools = {t.name: t for t in alike}
        while len(tools) < count:
            t = self.smith.tool(rng)
            if not any(_same(t, o) for o in tools.values()):
                tools.setdefault(t.name, t)
        return rng.sample(list(tools.values()), len(tools))

    # ── kinds of conversation ──

    def task(self, rng: random.Random, given: list[Tool]) -> tuple[Task, str]:
        roll = rng.random()
        tool = rng.choice(given)
        if roll < 0.20:
            task = together(rng, tool, self.split) if roll < 0.15 else parallel(rng, tool, self.split)
            if task and _differ(task):
                return task, "parallel"
        elif roll < 0.24 and tool.params:
            task = several(rng, [tool] * rng.choice([2, 2, 2, 3, 4]), self.split)
            if _differ(task):
                return task, "parallel"
        elif roll < 0.41 and len(given) > 1:
            tools = rng.sample(given, min(len(given), rng.choice([2, 2, 3, 3, 4])))
            if len(tools) < 4 and rng.random() < 0.3:
                tools.insert(rng.randrange(len(tools) + 1), rng.choice(tools))
            task = several(rng, tools, self.split)
            if _differ(task):
                return task, "parallel_multiple"
        return single(rng, tool), "simple" if len(given) == 1 else "multiple"

    def calls(self, rng: random.Random, given: list[Tool]) -> Conversation:
        task, tag = self.task(rng, given)
        plan = _plan(rng, " and ".join(dict.fromkeys(words(c[0]) for c in task.calls)), self.split, 0.25)
        messages = [
            *_system(rng, self.pools),
            Message("user", task.request),
            Message("assistant", plan, task.calls),
        ]
        return Conversation("call", [t.spec() for t in given], messages, tags=(tag,))

    def run(self, rng: random.Random, given: list[Tool]) -> Conversation:
        """Calls with made-up results and an answer that quotes them; errors; a second request."""
        task, tag = self.task(rng, given)
        messages = _system(rng, self.pools)
        expected: tuple[str, ...] = ()
        for turn in range(rng.choice([1, 1, 1, 2])):
            if turn:
                task = self._follow_up(rng, task, given) or single(rng, rng.choice(given))
            plan = _plan(rng, " and ".join(dict.fromkeys(words(c[0]) for c in task.calls)), self.split)
            messages.append(Message("user", task.request))
            by_name = {t.name: t for t in given}
            calls = task.calls
            if len(calls) == 1 and rng.random() < 0.18:
                spoiled = wrong(rng, by_name[calls[0][0]], calls[0])
                if spoiled:
                    bad, error = spoiled
                    messages += [Message("assistant", plan, (bad,), trained=False), Message("tool", error)]
                    plan = rng.choice(
                        ["", "", "I correct the argument.", "I try again.", "I fix that and call again."]
                    )
            messages.append(Message("assistant", plan, calls))
            parts = []
            kept: list[str] = []
            failed = rng.random() < 0.08
            for i, c in enumerate(calls):
                text, said, values = (
                    failure(rng, c, self.split)
                    if failed
                    else result(rng, self.pools, by_name[c[0]], calls, i, self.split)
                )
                messages.append(Message("tool", text))
                parts.append(said)
                kept += values
            messages.append(Message("assistant", " ".join(dict.fromkeys(parts))))
            expected = tuple(kept)
        return Conversation("run", [t.spec() for t in given], messages, expected, tags=(tag,))

    def _follow_up(self, rng: random.Random, task: Task, given: list[Tool]) -> Task | None:
        """'And for Oslo?': the last call again with one argument changed."""
        tool = next(t for t in given if t.name == task.calls[-1][0])
        spoken = task.spoken[-1]
        varied = [
            p for p in tool.params if p.name in spoken and p.schema["type"] in ("string", "integer", "number")
        ]
        if not varied or rng.random() < 0.4:
            return None
        p = rng.choice(varied)
        new = {**spoken, p.name: p.draw(rng)}
        if new[p.name].whole:
            return None
        said = new[p.name].text
        asks = [
            "And {v}?",
            "What about {v}?",
            "Now the same for {v}.",
            "The same with {v}, please.",
            "Do it again with {p} {v}.",
            "And with {p} {v}?",
        ]
        ask = pick(rng, asks, self.split)
        if "{p}" not in ask and sum(o.schema["type"] == p.schema["type"] for o in varied) > 1:
            # which of two is meant must show
            ask = rng.choice(
                ["What about the {p} {v}?", "Now the same for the {p} {v}.", "And if the {p} is {v}?"]
            )
        ask = ask.format(v=said, p=words(p.name))
        return Task(ask, ((tool.name, plain(new)),), (new,))

    # ── agent-loop tasks ──

    def desk(self, rng: random.Random) -> Conversation:
        return self._at_desk(rng, _Desk.drawn(rng, self))

    def _at_desk(self, rng: random.Random, place: _Desk) -> Conversation:
        """One or two requests of one to three sub-questions."""
        world, roles, kinds = place.world, place.roles, place.kinds
        messages = _system(rng, self.pools)
        expected: list[str] = []
        while not any(m.role == "user" for m in messages):
            for _ in range(rng.choice([1, 1, 1, 2])):
                count = rng.choice([1, 1, 1, 2, 2, 3, 3])
                drawn = [c for c in (draw_chain(rng, world, roles, kinds) for _ in range(count)) if c]
                # nobody asks the same twice in other words
                chains = list({c.topic or c.question.partition("?")[0]: c for c in drawn}.values())
                if chains:
                    expected = self._follow(rng, world, roles, chains, messages)
        return Conversation(
            "desk", place.tools, messages, tuple(expected), execute=lambda c: worlds.run_call(world, c)
        )

    def _follow(
        self,
        rng: random.Random,
        world: worlds.World,
        roles: list[str],
        chains: list[Chain],
        messages: list[Message],
    ) -> list[str]:
        """Appends the request, the turns that work the chains off stage by stage, and the answer."""
        joiner = rng.choice([" ", " Also: ", " And ", "\n"])
        request = chains[0].question
        for c in chains[1:]:
            # a name, which the question may begin with, keeps its capital
            small = joiner == " And " and re.split(r"\W", c.question)[0] in SMALL
            request += joiner + (c.question[0].lower() + c.question[1:] if small else c.question)
        if rng.random() < 0.3:
            request = (
                rng.choice(["Please help: ", "Hi! ", "A question: ", "I'd like to know: ", "Tell me: "])
                + request
            )
        messages.append(Message("user", request))
        results: list[list[str]] = [[] for _ in chains]
        in_parallel = rng.random() < 0.5
        wrong = rng.random() < 0.2
        while any(len(r) < len(c.steps) for r, c in zip(results, chains, strict=True)):
            waiting = [i for i, c in enumerate(chains) if len(results[i]) < len(c.steps)]
            if not in_parallel:
                waiting = waiting[:1]
            batch = [(i, chains[i].steps[len(results[i])](results[i])) for i in waiting]
            # two facts of different files are read together
            for i in list(waiting):
                c = chains[i]
                done = len(results[i])
                if in_parallel and done == 0 and len(c.steps) == 3 and c.steps[0]([])[0] == c.steps[1]([])[0]:
                    batch.append((i, c.steps[1]([])))
            unique: list[Call] = []
            for _, c_ in batch:
                if c_ not in unique:
                    unique.append(c_)
            plan = _plan(
                rng,
                " and ".join(dict.fromkeys(self._step_words(world, c_, rng) for c_ in unique)),
                self.split,
                0.6,
            )
            if wrong and len(unique) == 1:
                spoiled = self._astray(rng, world, unique[0]) or self._spoil(rng, world, unique[0])
                if spoiled:
                    messages += [
                        Message("assistant", plan, (spoiled,), trained=False),
                        Message("tool", worlds.run_call(world, spoiled)),
                    ]
                    plan = rng.choice(
                        [
                            "",
                            "I correct the call.",
                            "I try again with the right name.",
                            "That does not help, so I try another way.",
                        ]
                    )
                wrong = False
            messages.append(Message("assistant", plan, tuple(unique)))
            found = {json.dumps(c_): worlds.run_call(world, c_) for c_ in unique}
            messages += [Message("tool", found[json.dumps(c_)]) for c_ in unique]
            for i, c_ in batch:
                results[i].append(found[json.dumps(c_)])
        answers = [c.answer(r) for c, r in zip(chains, results, strict=True)]
        messages.append(Message("assistant", " ".join(answers)))
        return [value for c, r in zip(chains, results, strict=True) for value in c.quoted(r)]

    def _step_words(self, world: worlds.World, c: Call, rng: random.Random) -> str:
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

    def _astray(self, rng: random.Random, world: worlds.World, c: Call) -> Call | None:
        """A call that leads to the wrong place: another file, a file's name as one would guess it, a table without
        the column."""
        role = world.role(c)
        if rng.random() < 0.4:
            return None
        if role == "read":
            ((key, value),) = c[1].items()
            stem, _, ending = value.partition(".")
            guess = f"{re.split('[-_]', stem)[-1]}.{ending}"
            if not world.enumerated and guess != value and rng.random() < 0.6:
                return c[0], {key: guess}
            others = [f for f in world.files if f != value]
            return (c[0], {key: rng.choice(others)}) if others else None
        if role == "query" and len(world.tables) > 1:
            ((key, sql),) = c[1].items()
            table = re.search(r"FROM (\w+)", sql)
            others = [t.name for t in world.tables if table and t.name != table.group(1)]
            if table and others and "JOIN" not in sql:
                return c[0], {key: re.sub(rf"\b{table.group(1)}\b", rng.choice(others), sql)}
        return None

    def _spoil(self, rng: random.Random, world: worlds.World, c: Call) -> Call | None:
        """A call that fails in the world, close to the right one."""
        role = world.role(c)
        if role == "read" and not world.enumerated:
            ((key, value),) = c[1].items()
            return c[0], {
                key: rng.choice([value.split(".")[0], value.split(".")[0] + ".csv", "notes.txt", value[1:]])
            }
        if role == "query":
            ((key, sql),) = c[1].items()
            table = re.search(r"FROM (\w+)", sql)
            if table and rng.random() < 0.5:
                return c[0], {key: sql.replace(table.group(1), table.group(1) + "_table")}
            columns = [x for t in world.tables for x in t.columns if re.search(rf"\b{x}\b", sql)]
            if columns:
                column = rng.choice(columns)
                return c[0], {key: re.sub(rf"\b{column}\b", column + rng.choice(["s", "_value", "_id"]), sql)}
        if role == "search":
            ((key, _),) = c[1].items()
            return c[0], {
                key: rng.choice(["xylophone count", "number of things", self.pools.noun(rng) + "zz"])
            }
        return None

    # ── no call ──

    def decline(self, rng: random.Random, given: list[Tool]) -> Conversation:
        lettered = self._lettered(rng, given) if rng.random() < 0.1 else ""
        request = lettered or self._unserved(rng, given)
        text = pick(rng, VALUES_WANTED if lettered else DECLINES, self.split)
        if rng.random() < 0.3 and not lettered:
            text += " " + rng.choice(
                ["I can only {t}.", "What I can do is: {t}.", "They serve to {t}."]
            ).format(t=", ".join(words(t.name) for t in given[:4]))
        messages = [*_system(rng, self.pools), Message("user", request), Message("assistant", text)]
        return Conversation("decline", [t.spec() for t in given], messages)

    def _lettered(self, rng: random.Random, given: list[Tool]) -> str:
        """A request with letters for all its numbers: 'how far does it get in time t with a speed of v'."""
        able = [t for t in given if t.sketch and sum(_is_number(p) for p in t.params if p.required) > 1]
        if not able:
            return ""
        tool = rng.choice(able)
        quoted = rng.random() < 0.5
        spoken = {p.name: p.draw(rng) for p in tool.params if p.required and not _is_number(p)}
        taken: set[str] = set()
        for p in tool.params:
            if p.required and _is_number(p):
                letter = next(c for c in words(p.name) + LETTERS if c.isalpha() and c not in taken)
                taken.add(letter)
                spoken[p.name] = Spoken(None, f"'{letter}'" if quoted else letter)
        return tool.ask(rng, spoken)

    def _unserved(self, rng: random.Random, given: list[Tool]) -> str:
        """A request that none of the tools serves: of another topic, or near by."""
        everyday = [t for t in given if t.miss]
        while True:
            roll = rng.random()
            if roll < 0.3 and everyday:
                tool = rng.choice(everyday)
                assert tool.miss
                asked_near = tool.miss(rng)
                others = {
                    w
                    for t in given
                    if t is not tool
                    for w in words(f"{t.topic} {t.name}").split()
                    if len(w) > 3
                }
                if not others - COMMON & set(re.findall("[a-z]+", asked_near.lower())):
                    return asked_near
                continue
            if roll < 0.55 and (near := self.smith.near(rng, given)):
                return single(rng, near).request
            if roll < 0.75:
                return plain_question(rng, self.pools, self.split)
            asked = self.smith.tool(rng)
            if not any(_alike(asked, t) for t in given):
                return single(rng, asked).request

    def clarify(self, rng: random.Random, given: list[Tool]) -> Conversation:
        """A required argument is missing: the model asks for it, then calls."""
        able = [
            (t, p)
            for t in given
            for p in t.params
            if not t.whole and p.required and p.schema["type"] in SCALARS
        ]
        if not able:
            return self.chat(rng, given)
        tool, missing = rng.choice(able)
        spoken = arguments(rng, tool, 0.2)
        said = words(missing.name)
        known = {k: v for k, v in spoken.items() if k != missing.name}
        if spoken[missing.name].whole:
            return self.chat(rng, given)
        if tool.sketch and missing.schema["type"] != "string" and rng.random() < 0.5:
            # a letter in place of the number: 'a circle with radius r'
            letter = rng.choice([said[0], said[0], said[0].upper(), "x"])
            known[missing.name] = Spoken(None, rng.choice([letter, letter, f"'{letter}'"]))
        request = tool.ask(rng, known)
        question = pick(
            rng,
            [
                f"Which {said} should I use?",
                f"Please tell me the {said}.",
                f"What is the {said}?",
                f"I need the {said} for that.",
                f"For that I need to know the {said}.",
            ],
            self.split,
        )
        reply = rng.choice(["{v}", "{v}.", "Use {v}.", "It's {v}.", "Take {v}, please."]).format(
            v=spoken[missing.name].text
        )
        messages = [
            *_system(rng, self.pools),
            Message("user", request),
            Message("assistant", question),
            Message("user", reply),
            Message("assistant", "", ((tool.name, plain(spoken)),)),
        ]
        return Conversation("clarify", [t.spec() for t in given], messages)

    def chat(self, rng: random.Random, given: list[Tool]) -> Conversation:
        """A short conversation with tools in sight."""
        messages = _system(rng, self.pools)
        for asked, answer in small_talk(rng, self.pools, self.split, [t.name for t in given]):
            messages += [Message("user", asked), Message("assistant", answer)]
        return Conversation("chat", [t.spec() for t in given], messages)


@dataclass(frozen=True)
class _Desk:
    """A world, the tools that show it, and the kinds of question they answer."""

    world: worlds.World
    roles: list[str]
    kinds: list[Maker]
    tools: list[dict[str, Any]]

    @classmethod
    def drawn(cls, rng: random.Random, writer: Writer) -> _Desk:
        world = worlds.make_world(rng, writer.kinds)
        roles = list(worlds.ROLE_NAMES)
        if rng.random() < 0.5:
            roles = rng.sample(roles, rng.randint(2, 6))
        rng.shuffle(roles)
        tools = worlds.tool_specs(rng, world, roles)
        if rng.random() < 0.3:
            for t in (writer.smith.tool(rng).spec() for _ in range(rng.randint(1, 2))):
                if t["name"] not in {o["name"] for o in tools}:
                    tools.append(t)
            rng.shuffle(tools)
        return cls(world, roles, makers(roles), tools)


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
    ]
)  # words that a question may begin with, small behind "And"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VALUES_WANTED = (
    "Please give me the values, then I can do it.",
    "Which numbers should I use?",
    "I need numbers for that, not letters.",
    "I can work it out once I know the values.",
    "Tell me the values and I will compute it.",
)


def _is_number(p: Param) -> bool:
    return p.schema["type"] in ("integer", "number")


COMMON = {"get", "list", "the", "find", "search", "check", "create", "calculate"}


def _differ(task: Task) -> bool:
    """Whether no call of it stands there twice."""
    return all(c not in task.calls[:i] for i, c in enumerate(task.calls))


def _same(a: Tool, b: Tool) -> bool:
    """Whether two tools may be one thing under two names: of one topic, or an everyday domain's and a like one."""
    return a.topic == b.topic or (bool(a.sketch) != bool(b.sketch) and _alike(a, b))


def _alike(a: Tool, b: Tool) -> bool:
    """Whether one tool might serve a request for the other."""
    return a.topic == b.topic or bool((set(a.topic.split()) & set(b.topic.split())) - COMMON)
