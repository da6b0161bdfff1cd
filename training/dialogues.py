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
from training.desk.chains import Chain, makers
from training.kinds import Kinds, Pools, Split, pick, words
from training.tooling import Call, Task, Tool, Toolsmith, arguments, bind, parallel, plain, several, single


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
DECLINES = [
    "None of the available tools can do this.",
    "I have no tool for that.",
    "I can't do that with the tools I have.",
    "Sorry, no tool here fits this request.",
    "That is outside what my tools can do.",
    "There is no function for this among my tools.",
    "My tools do not cover that.",
    "I'm afraid none of my tools helps with this request.",
    "I cannot help with that: no suitable tool is available.",
    "No available function matches your request.",
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


class Writer:
    """Writes conversations of one split."""

    def __init__(self, pools: Pools, split: Split) -> None:
        self.pools = pools
        self.split: Split = split
        self.kinds = Kinds(pools, split)
        self.smith = Toolsmith(self.kinds)

    def conversation(self, rng: random.Random) -> Conversation:
        roll = rng.random()
        if roll < 0.36:
            return self.calls(rng)
        if roll < 0.50:
            return self.run(rng)
        if roll < 0.80:
            return self.desk(rng)
        if roll < 0.90:
            return self.decline(rng)
        if roll < 0.92:
            return self.clarify(rng)
        return self.chat(rng)

    # ── tool sets ──

    def _tools(self, rng: random.Random, wanted: list[Tool], most: int = 6) -> list[Tool]:
        """The wanted tools among others, in random order."""
        tools = {t.name: t for t in wanted}
        others = rng.choice([0, 0, 1, 1, 2, 3, most - 1]) if rng.random() < 0.97 else rng.randint(8, 16)
        for _ in range(others):
            t = bind(self.smith.tool(rng))
            if t.topic not in {o.topic for o in tools.values()}:
                tools.setdefault(t.name, t)
        out = list(tools.values())
        rng.shuffle(out)
        return out

    # ── kinds of conversation ──

    def task(self, rng: random.Random) -> tuple[Task, list[Tool], str]:
        roll = rng.random()
        tool = bind(self.smith.tool(rng))
        if roll < 0.15:
            task = parallel(rng, tool)
            if task:
                return task, [tool], "parallel"
        elif roll < 0.35:
            tools = [tool]
            for _ in range(rng.choice([1, 1, 2])):
                other = bind(self.smith.tool(rng))
                if other.name not in {t.name for t in tools}:
                    tools.append(other)
            if rng.random() < 0.25:
                tools = [tool, tool, *tools[1:]]
            return (
                several(rng, tools, self.split),
                list({t.name: t for t in tools}.values()),
                "parallel_multiple",
            )
        return single(rng, tool), [tool], "simple"

    def calls(self, rng: random.Random) -> Conversation:
        task, tools, tag = self.task(rng)
        given = self._tools(rng, tools)
        if tag == "simple" and len(given) > 1:
            tag = "multiple"
        plan = _plan(rng, " and ".join(dict.fromkeys(words(c[0]) for c in task.calls)), self.split, 0.25)
        messages = [
            *_system(rng, self.pools),
            Message("user", task.request),
            Message("assistant", plan, task.calls),
        ]
        return Conversation("call", [t.spec() for t in given], messages, tags=(tag,))

    def run(self, rng: random.Random) -> Conversation:
        """Calls with made-up results and an answer that quotes them; errors; a second request."""
        task, tools, tag = self.task(rng)
        given = self._tools(rng, tools, 4)
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
                wrong = self._wrong(rng, by_name[calls[0][0]], calls[0])
                if wrong:
                    bad, error = wrong
                    messages += [Message("assistant", plan, (bad,), trained=False), Message("tool", error)]
                    plan = rng.choice(
                        ["", "", "I correct the argument.", "I try again.", "I fix that and call again."]
                    )
            messages.append(Message("assistant", plan, calls))
            parts = []
            kept: list[str] = []
            failed = rng.random() < 0.08
            for c in calls:
                text, said, values = self._failure(rng, c) if failed else self._result(rng, by_name[c[0]], c)
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
        said = new[p.name].text
        ask = pick(
            rng,
            [
                "And {v}?",
                "What about {v}?",
                "Now the same for {v}.",
                "The same with {v}, please.",
                "Do it again with {p} {v}.",
                "And with {p} {v}?",
            ],
            self.split,
        ).format(v=said, p=words(p.name))
        return Task(ask, ((tool.name, plain(new)),), (new,))

    def _wrong(self, rng: random.Random, tool: Tool, good: Call) -> tuple[Call, str] | None:
        """A call with one argument wrong, and what the tool says to it."""
        strings = [p for p in tool.params if p.name in good[1] and p.schema["type"] == "string"]
        if not strings:
            return None
        p = rng.choice(strings)
        value = good[1][p.name]
        if len(value) < 4:
            return None
        i = rng.randrange(len(value) - 1)
        typo = value[:i] + value[i + 1] + value[i] + value[i + 2 :]
        if typo == value:
            return None
        error = rng.choice(
            [
                f"Error: unknown {p.name} {typo!r}. Did you mean {value!r}?",
                f"{p.name}: {typo!r} not found. Known: {value}.",
                f"Error in argument {p.name}: {typo!r} does not exist, but {value!r} does.",
                f"No such {words(p.name)}: {typo}. Available: {value}",
            ]
        )
        return (tool.name, {**good[1], p.name: typo}), error

    def _failure(self, rng: random.Random, c: Call) -> tuple[str, str, list[str]]:
        reason = rng.choice(
            [
                "the service is not available",
                "permission denied",
                "the tool timed out after 30 s",
                "the connection was refused",
                "no data for this request",
                "not found",
                "quota exceeded",
                "internal error",
            ]
        )
        text = rng.choice(
            [f"Error: {reason}.", f"error: {reason}", f"Failed: {reason}.", json.dumps({"error": reason})]
        )
        said = pick(
            rng,
            [
                f"The tool {c[0]} failed: {reason}.",
                f"I could not do this, because {reason}.",
                f"That did not work: {reason}.",
                f"Sorry, the call failed: {reason}.",
            ],
            self.split,
        )
        return text, said, [reason]

    def _result(self, rng: random.Random, tool: Tool, c: Call) -> tuple[str, str, list[str]]:
        """Result text, the sentence that quotes it, and the values quoted."""
        pools = self.pools
        topic = words(tool.name)
        first = next(
            (
                v
                for v in c[1].values()
                if isinstance(v, str | int | float) and not isinstance(v, bool) and len(str(v)) < 40
            ),
            None,
        )
        where = f" for {first}" if first is not None else ""
        roll = rng.random()

        def scalar() -> Any:
            makers: list[Callable[[], Any]] = [
                lambda: rng.randint(0, 99999),
                lambda: round(rng.uniform(0, 1000), rng.choice([1, 2, 2, 3])),
                lambda: pools.value(rng, rng.choice(["person", "city", "company", "phrase", "colour"])),
                lambda: pools.topic(rng),
                lambda: f"{rng.randint(2020, 2027)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
                lambda: rng.choice(["yes", "no", "open", "closed", "sunny", "delayed"]),
            ]
            return rng.choice(makers)()

        if roll < 0.3:
            v = scalar()
            text = rng.choice([str(v), json.dumps({"result": v}, ensure_ascii=False), f"{v}"])
            said = pick(
                rng,
                [
                    f"The result of {topic}{where} is {v}.",
                    f"It is {v}.",
                    f"The answer{where} is {v}.",
                    f"{topic.capitalize()}{where}: {v}.",
                    f"I found {v}{where}.",
                ],
                self.split,
            )
            return text, said, [str(v)]
        if roll < 0.65:
            fields = {
                re.sub(
                    r"\W+",
                    "_",
                    pools.noun(rng)
                    if rng.random() < 0.5
                    else rng.choice(
                        [
                            "status",
                            "price",
                            "name",
                            "temperature",
                            "id",
                            "date",
                            "total",
                            "count",
                            "owner",
                            "city",
                            "rating",
                            "distance",
                            "duration",
                        ]
                    ),
                ): scalar()
                for _ in range(rng.randint(1, 4))
            }
            text = json.dumps(fields, ensure_ascii=False)
            quoted = list(fields.items())[:3]
            said = pick(
                rng,
                [
                    "Here is what I found"
                    + where
                    + ": "
                    + ", ".join(f"{words(k)} {v}" for k, v in quoted)
                    + ".",
                    " ".join(f"The {words(k)} is {v}." for k, v in quoted),
                    f"{topic.capitalize()}{where}: " + ", ".join(f"{words(k)} {v}" for k, v in quoted) + ".",
                    "The " + ", the ".join(f"{words(k)} is {v}" for k, v in quoted) + ".",
                ],
                self.split,
            )
            return text, said, [str(v) for _, v in quoted]
        if roll < 0.82:
            items = list(dict.fromkeys(str(scalar()) for _ in range(rng.randint(2, 5))))
            text = rng.choice([json.dumps(items, ensure_ascii=False), ", ".join(items), "\n".join(items)])
            said = pick(
                rng,
                [
                    f"I found {len(items)}: {', '.join(items)}.",
                    f"The results{where} are {', '.join(items)}.",
                    f"Here they are: {', '.join(items)}.",
                    f"There are {len(items)} results: {', '.join(items)}.",
                ],
                self.split,
            )
            return text, said, items
        number = rng.randint(100, 99999)
        text = rng.choice(
            [
                "ok",
                "done",
                f"created {number}",
                json.dumps({"status": "ok", "id": number}),
                json.dumps({"success": True}),
                f"OK, number {number}",
            ]
        )
        has = str(number) in text
        said = pick(
            rng,
            [f"Done{where}.", f"Done: {topic}{where}.", f"It worked{where}.", f"That is done{where}."],
            self.split,
        )
        if has:
            said = said[:-1] + f", number {number}."
        return text, said, [str(number)] if has else []

    # ── agent-loop tasks ──

    def desk(self, rng: random.Random) -> Conversation:
        world = worlds.make_world(rng, self.kinds)
        roles = list(worlds.ROLE_NAMES)
        if rng.random() < 0.5:
            keep = rng.randint(2, 6)
            roles = rng.sample(roles, keep)
        rng.shuffle(roles)
        kinds = makers(roles)
        tools = worlds.tool_specs(rng, world, roles)
        if rng.random() < 0.3:
            tools += [
                t
                for t in (bind(self.smith.tool(rng)).spec() for _ in range(rng.randint(1, 2)))
                if t["name"] not in {o["name"] for o in tools}
            ]
            rng.shuffle(tools)
        messages = _system(rng, self.pools)
        expected: list[str] = []
        for _ in range(rng.choice([1, 1, 1, 2])):
            chains = [
                c
                for c in (rng.choice(kinds)(rng, world, roles) for _ in range(rng.choice([1, 1, 1, 2, 2, 3])))
                if c
            ]
            if not chains:
                chains = [c for c in (kinds[-1](rng, world, roles),) if c]
            if not chains:
                continue
            expected = self._follow(rng, world, roles, chains, messages)
        if not any(m.role == "user" for m in messages):
            return self.desk(rng)
        return Conversation(
            "desk", tools, messages, tuple(expected), execute=lambda c: worlds.run_call(world, c)
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
            request += joiner + (c.question if joiner != " And " else c.question[0].lower() + c.question[1:])
        if rng.random() < 0.3:
            request = (
                rng.choice(["Please help: ", "Hi! ", "A question: ", "I'd like to know: ", "Tell me: "])
                + request
            )
        messages.append(Message("user", request))
        results: list[list[str]] = [[] for _ in chains]
        in_parallel = rng.random() < 0.8
        wrong = rng.random() < 0.15
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
                spoiled = self._spoil(rng, world, unique[0])
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
                            "That failed, so I try another way.",
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

    def decline(self, rng: random.Random) -> Conversation:
        asked = bind(self.smith.tool(rng))
        request = single(rng, asked).request if rng.random() < 0.6 else self._plain_question(rng)
        tools: dict[str, Tool] = {}
        for _ in range(rng.choice([1, 1, 1, 2, 3, 4])):
            t = bind(self.smith.tool(rng))
            if t.topic != asked.topic and not set(t.topic.split()) & set(asked.topic.split()) - {
                "get",
                "list",
                "the",
            }:
                tools.setdefault(t.name, t)
        if not tools:
            return self.decline(rng)
        text = pick(rng, DECLINES, self.split)
        if rng.random() < 0.3:
            text += " " + rng.choice(
                ["I can only {t}.", "What I can do is: {t}.", "They serve to {t}."]
            ).format(t=", ".join(words(t) for t in tools))
        messages = [*_system(rng, self.pools), Message("user", request), Message("assistant", text)]
        return Conversation("decline", [t.spec() for t in tools.values()], messages)

    def _plain_question(self, rng: random.Random) -> str:
        pools = self.pools
        noun, other = pools.topic(rng), pools.noun(rng)
        return pick(
            rng,
            [
                f"Who invented the {noun}?",
                f"Write a poem about the {noun}.",
                f"What is the history of the {noun}?",
                f"Why do people like {noun}?",
                f"Tell me a joke about {noun}.",
                f"What's the difference between {noun} and {other}?",
                f"How do I get better at {noun}?",
                f"Draw me a picture of {noun}.",
                f"Explain {noun} to a child.",
                f"Which {noun} is the best?",
                f"What did {pools.value(rng, 'person')} say about {noun}?",
                f"How much does the {noun} cost in {pools.value(rng, 'city')}?",
                f"What is the chemical formula of {noun}?",
                f"When was {pools.value(rng, 'company')} founded?",
                f"Who is the president of {pools.value(rng, 'country')}?",
                f"Solve this riddle about {noun} and {other}.",
                f"How many {other}s are in a {noun}?",
                f"What are the main parts of a {noun}?",
            ],
            self.split,
        )

    def clarify(self, rng: random.Random) -> Conversation:
        """A required argument is missing: the model asks for it, then calls."""
        for _ in range(20):
            tool = bind(self.smith.composed(rng))
            needed = [
                p for p in tool.params if p.required and p.schema["type"] in ("string", "integer", "number")
            ]
            if needed:
                break
        else:
            return self.chat(rng)
        given = self._tools(rng, [tool], 3)
        spoken = arguments(rng, tool, 0.2)
        missing = rng.choice(needed)
        request = tool.ask(rng, {k: v for k, v in spoken.items() if k != missing.name})
        said = words(missing.name)
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

    def chat(self, rng: random.Random) -> Conversation:
        """A short conversation, sometimes with tools in sight."""
        pools, split = self.pools, self.split
        tools = [bind(self.smith.tool(rng)).spec() for _ in range(rng.choice([0, 0, 0, 1, 2, 3]))]
        tools = list({t["name"]: t for t in tools}.values())
        messages = _system(rng, pools)
        name = rng.choice(pools.values["first"])
        for _ in range(rng.randint(1, 3)):
            roll = rng.random()
            if roll < 0.15:
                ask = pick(
                    rng,
                    ["Hello", "Hi!", "Hey there", "Good morning", "Good evening", "Hi, how are you?"],
                    split,
                )
                answer = rng.choice(
                    [
                        "Hello! How can I help you?",
                        "Hi! What can I do for you?",
                        "Good to see you. What do you need?",
                    ]
                )
            elif roll < 0.25:
                ask = pick(
                    rng,
                    [
                        "Who are you?",
                        "What are you?",
                        "What's your name?",
                        "Are you a person?",
                        "Introduce yourself.",
                    ],
                    split,
                )
                answer = rng.choice(
                    [
                        "I am LaneFormer-nano, a small model that calls tools.",
                        "My name is LaneFormer-nano. I am a small language model made to use tools.",
                    ]
                )
            elif roll < 0.35:
                ask = pick(
                    rng,
                    [
                        "What can you do?",
                        "How can you help me?",
                        "Which tools do you have?",
                        "What are you able to do?",
                        "List your functions.",
                    ],
                    split,
                )
                answer = (
                    ("I can use these tools: " + ", ".join(t["name"] for t in tools) + ".")
                    if tools
                    else rng.choice(
                        [
                            "I can call tools when you give me some, and talk a little.",
                            "Give me tools and I will call them. I can also explain a word.",
                        ]
                    )
                )
            elif roll < 0.45:
                ask = pick(
                    rng,
                    [
                        "Thanks!",
                        "Thank you very much.",
                        "Great, thanks.",
                        "That helped, thank you.",
                        "Perfect.",
                    ],
                    split,
                )
                answer = rng.choice(["You're welcome!", "Glad to help.", "Any time."])
            elif roll < 0.52:
                ask = pick(
                    rng, ["Bye", "Goodbye!", "See you later.", "That's all.", "Have a nice day."], split
                )
                answer = rng.choice(["Goodbye!", "See you soon.", "Have a good day!"])
            elif roll < 0.58:
                ask = rng.choice([f"My name is {name}.", f"I'm {name}.", f"Call me {name}."])
                answer = rng.choice(
                    [f"Nice to meet you, {name}.", f"Hello {name}!", f"Hi {name}, how can I help?"]
                )
            elif roll < 0.66:
                phrase = rng.choice(
                    [pools.value(rng, "sentence"), pools.value(rng, "phrase"), pools.topic(rng)]
                )
                ask = rng.choice(
                    ["Repeat after me: {p}", 'Say "{p}".', "Please repeat: {p}", 'Write "{p}" again.']
                ).format(p=phrase)
                answer = phrase
            elif tools and roll < 0.7:
                ask, answer = self._plain_question(rng), pick(rng, DECLINES, split)
            else:
                part = rng.choice(["nouns", "nouns", "verbs", "adjectives"])
                word, gloss = rng.choice(getattr(pools, part)[:4000])
                ask = pick(
                    rng,
                    [
                        "What does {w} mean?",
                        "Explain the word {w}.",
                        "What is the meaning of {w}?",
                        "Define {w}.",
                        "What is meant by {w}?",
                        "Can you explain {w}?",
                    ],
                    split,
                ).format(w=f'"{word}"' if rng.random() < 0.5 else word)
                answer = rng.choice(
                    [f"{word.capitalize()} means: {gloss}.", f'"{word}" means {gloss}.', f"It means {gloss}."]
                )
            messages += [Message("user", ask), Message("assistant", answer)]
        return Conversation("chat", tools, messages)
