# ruff: noqa: E501 -- sentences and tables are data: one a line reads better than wrapped ones
"""Whole conversations: system text, tools, turns. What the model is trained on and tested with. Knows no tokens.

Kinds of conversation: call (one turn of one or several calls), run (calls, results, answer, perhaps a second
request), desk (agent-loop tasks that build on results), decline, clarify, chat. Beside stand the tool sets that
people give an agent: those of the desk among others, and small talk before, after and without requests.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from training import handoffs
from training.beside import LOOKED_UP, UNSERVED, Shelf, unserved
from training.contrast import twin
from training.desk.tasks import Desk
from training.greetings import FIRST, LAST, NO_TOOLS, exchange
from training.hinting import Kit
from training.kinds import Kinds
from training.naming import Split, pick, stopped, words
from training.phrases import IDLE
from training.pools import Pools
from training.render import dumps
from training.replies import failure, result, wrong
from training.several import together
from training.sketches import SKETCHES
from training.spoken import SCALARS, Param, Spoken
from training.talk import DECLINES, plain_question, small_talk
from training.tasks import parallel, several, single
from training.tools import Call, Task, Tool, arguments, plain
from training.toolsmith import Toolsmith
from training.turns import Conversation, Message, plan, system
from training.unserved import SERVING, Unserved
from training.usual import Bench

DESK = 0.33  # share of agent-loop tasks in the others than those below
IDLERS = 0.2  # share of requests beside which stands a sentence that asks for nothing
BESIDE = 0.064  # share of documents in which tools of the desk stand beside others: 6 % of all tokens
COURTESY = 0.043  # share of those with small talk: 3 % of all tokens
HANDOVER = 0.045  # share of those with agents that hand over: 2 % of all tokens
SERVED = 0.038  # share of tools that serve what is else asked in vain (training/unserved.py)
ASTRAY = 0.055  # share of requests beside a desk's tools that have nothing to do with them
USUAL = 0.075  # share of those beside the tools that most agents are given: 5 % of all tokens
HINTED = 0.33  # share of those that ask for everyday tools by hints: 24 % of all tokens
TWINS = 0.4  # share of single calls that another follows which differs in one thing


class Writer:
    """Writes conversations of one split."""

    def __init__(self, pools: Pools, split: Split) -> None:
        self.pools = pools
        self.split: Split = split
        self.kinds = Kinds(pools, split)
        self.smith = Toolsmith(self.kinds)
        self.unserved = Unserved(pools, split)

    def conversation(self, rng: random.Random) -> Conversation:
        """One conversation, with tools of its own."""
        return self._alike(rng, 1)[0]

    def bundle(self, rng: random.Random, most: int = 16) -> Conversation:
        """One tool set with several conversations behind it, as branches: most of what a model must read is the
        tools, and here they are read once for all. Right and declined requests of the same tools meet.
        """
        made = self._alike(rng, most)
        first = made[0].messages
        start = first[:1] if first[0].role == "system" else []
        branches = [[m for m in c.messages if m.role != "system"] for c in made]
        return Conversation("bundle", made[0].tools, start, branches=tuple(branches))

    def _alike(self, rng: random.Random, most: int) -> list[Conversation]:
        """Conversations with one tool set, at most so many."""
        roll = rng.random()
        for share, make in (
            (BESIDE, self.beside),
            (COURTESY, self.courtesies),
            (HANDOVER, self.handovers),
            (HINTED, self.hinted),
            (USUAL, self.usual),
        ):
            if roll < share:
                return make(rng, most)
            roll -= share
        if rng.random() < DESK:
            place = Desk.drawn(rng, self.smith)
            return [
                self._astray(rng, place.tools) if rng.random() < ASTRAY else place.conversation(rng)
                for _ in range(min(most, rng.randint(4, 8)))
            ]
        given = self.toolset(rng)
        made: list[Conversation] = []
        wanted = min(most, rng.randint(4, 8 + len(given)))
        while len(made) < wanted:
            kind = self._kind(rng)
            if kind != self.calls:
                made.append(kind(rng, given))
                continue
            task, tag = self.task(rng, given)
            made.append(self._called(rng, given, task, tag))
            tool = next(t for t in given if t.name == task.calls[0][0])
            if len(task.calls) == 1 and rng.random() < TWINS and (alike := twin(rng, tool, task.spoken[0])):
                made.append(self._called(rng, given, alike, tag))
        return made

    def _kind(self, rng: random.Random) -> Callable[[random.Random, list[Tool]], Conversation]:
        kinds = (self.calls, self.run, self.decline, self.astray, self.clarify, self.chat)
        return rng.choices(kinds, (53, 19, 17, 7, 5, 6))[0]

    # ── tool sets ──

    def toolset(self, rng: random.Random) -> list[Tool]:
        """One to six tools, sometimes many: of any topics, or some that must be told apart."""
        count = rng.choice([1, 1, 2, 2, 3, 4, 6]) if rng.random() < 0.97 else rng.randint(9, 16)
        alike = self.smith.siblings(rng, min(count, 4)) if count > 1 and rng.random() < 0.55 else []
        tools = {t.name: t for t in alike}
        while len(tools) < count:
            t = self.unserved.tool(rng) if rng.random() < SERVED else self.smith.tool(rng)
            if not any(_same(t, o) for o in tools.values()):
                tools.setdefault(t.name, t)
        return rng.sample(list(tools.values()), len(tools))

    # ── kinds of conversation ──

    def task(self, rng: random.Random, given: list[Tool]) -> tuple[Task, str]:
        roll = rng.random()
        tool = rng.choice(given)
        if roll < 0.26:
            task = together(rng, tool, self.split) if roll < 0.21 else parallel(rng, tool, self.split)
            if task and _differ(task):
                return task, "parallel"
        elif roll < 0.30 and tool.params:
            task = several(rng, [tool] * rng.choice([2, 2, 2, 3, 4]), self.split)
            if _differ(task):
                return task, "parallel"
        elif roll < 0.52 and len(given) > 1:
            tools = rng.sample(given, min(len(given), rng.choice([2, 2, 3, 3, 4])))
            if len(tools) < 4 and rng.random() < 0.3:
                tools.insert(rng.randrange(len(tools) + 1), rng.choice(tools))
            task = several(rng, tools, self.split)
            if _differ(task):
                return task, "parallel_multiple"
        return single(rng, tool), "simple" if len(given) == 1 else "multiple"

    def calls(self, rng: random.Random, given: list[Tool]) -> Conversation:
        return self._called(rng, given, *self.task(rng, given))

    def _among_others(self, rng: random.Random, request: str) -> str:
        """The request, now and then with a sentence beside it that asks for nothing."""
        if self.split != "train" or rng.random() > IDLERS:
            return request
        pools = self.pools
        idle = rng.choice(pools.sentences)
        if rng.random() < 0.5:
            idle = rng.choice(IDLE).format(n=pools.noun(rng), m=pools.noun(rng), a=pools.adjective(rng))
        if rng.random() < 0.5:
            return f"{idle} {request}"
        return f"{stopped(request)} {idle}"

    def _plan(self, rng: random.Random, calls: Sequence[Call], chance: float) -> str:
        return plan(rng, "use " + " and ".join(dict.fromkeys(c[0] for c in calls)), self.split, chance)

    def _called(self, rng: random.Random, given: list[Tool], task: Task, tag: str) -> Conversation:
        thought = self._plan(rng, task.calls, 0.25)
        messages = [
            *system(rng, self.pools),
            Message("user", self._among_others(rng, task.request)),
            Message("assistant", thought, task.calls),
        ]
        return Conversation("call", [t.spec() for t in given], messages, tags=(tag,))

    def run(self, rng: random.Random, given: list[Tool]) -> Conversation:
        """Calls with made-up results and an answer that quotes them; errors; a second request."""
        task, tag = self.task(rng, given)
        messages = system(rng, self.pools)
        expected: tuple[str, ...] = ()
        for turn in range(rng.choice([1, 1, 1, 2])):
            if turn:
                task = self._follow_up(rng, task, given) or single(rng, rng.choice(given))
            thought = self._plan(rng, task.calls, 0.55)
            by_name = {t.name: t for t in given}
            calls = task.calls
            failed = rng.random() < 0.08
            found = [
                failure(rng, c) if failed else result(rng, self.pools, by_name[c[0]], calls, i)
                for i, c in enumerate(calls)
            ]
            answer = " ".join(dict.fromkeys(f.said for f in found))
            expected = tuple(value for f in found for value in f.values)
            asked = found[0].asked if len(calls) == 1 else ()
            request = task.request
            if asked and rng.random() < 0.25:  # what of the result is wanted is said at once
                about = rng.choice(asked)
                request, asked = f"{stopped(request)} {about.question}", ()
                answer, expected = about.answer, about.values
            messages.append(Message("user", request))
            if len(calls) == 1 and rng.random() < 0.18:
                spoiled = wrong(rng, by_name[calls[0][0]], calls[0])
                if spoiled:
                    bad, error = spoiled
                    messages += [Message("assistant", thought, (bad,), trained=False), Message("tool", error)]
                    thought = rng.choice(
                        ["", "", "I correct the argument.", "I try again.", "I fix that and call again."]
                    )
            messages.append(Message("assistant", thought, calls))
            messages += [Message("tool", f.text) for f in found]
            messages.append(Message("assistant", answer))
            if asked and rng.random() < 0.35:
                about = rng.choice(asked)
                messages += [Message("user", about.question), Message("assistant", about.answer)]
                expected = about.values
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
        return Task.of(ask, tool, [new])

    # ── agent-loop tasks ──

    def desk(self, rng: random.Random) -> Conversation:
        return Desk.drawn(rng, self.smith).conversation(rng)

    # ── tools of the desk beside others, small talk ──

    def _shelf(self, rng: random.Random) -> tuple[Shelf, list[Tool], list[dict[str, Any]]]:
        """Tools of a desk, others whose requests none of these serves, and all of them as the model is told."""
        shelf = Shelf.drawn(rng, self.kinds)
        given: list[Tool] = []
        while not given:
            given = [t for t in self.toolset(rng)[:5] if shelf.apart(t) and t.topic not in SERVING]
        specs = [*shelf.specs, *(t.spec() for t in given)]
        return shelf, given, rng.sample(specs, len(specs))

    def beside(self, rng: random.Random, most: int) -> list[Conversation]:
        """Requests for the others, for none, and plain ones for the desk's tools."""
        shelf, given, specs = self._shelf(rng)
        made: list[Conversation] = []
        while len(made) < min(most, 6 + 2 * len(given)):
            kind = rng.choices(("call", "run", "plain", "none", "talk"), (40, 8, 18, 24, 10))[0]
            if kind == "call":
                made.append(self.calls(rng, given))
            elif kind == "run":
                made.append(self.run(rng, given))
            elif kind == "plain":
                asked, call = shelf.plain_request(rng)
                thought = self._plan(rng, (call,), 0.1)
                turns = [Message("user", asked), Message("assistant", thought, (call,))]
                made.append(Conversation("call", specs, [*system(rng, self.pools), *turns], tags=("simple",)))
            elif kind == "none":
                asked = unserved(rng, shelf, given) if rng.random() < 0.5 else self._unserved(rng, given)
                if asked and not shelf.serves(asked):
                    turns = [Message("user", asked), Message("assistant", pick(rng, DECLINES, self.split))]
                    made.append(Conversation("decline", specs, [*system(rng, self.pools), *turns]))
            else:
                made.append(self._courtesy(rng, [], specs))
        return [replace(c, tools=specs) for c in made]

    def courtesies(self, rng: random.Random, most: int) -> list[Conversation]:
        """Small talk with tools in sight, before and after requests, or with no tool at all."""
        count = min(most, rng.randint(5, 9))
        roll = rng.random()
        if roll < 0.3:
            return [self._without_tools(rng) for _ in range(count)]
        if roll < 0.4:
            place = Desk.drawn(rng, self.smith)
            return [self._courtesy(rng, place.conversation(rng).messages, place.tools) for _ in range(count)]
        if roll < 0.75:
            _, given, specs = self._shelf(rng)
        else:
            given = self.toolset(rng)
            specs = [t.spec() for t in given]
        kinds = (self.run, self.run, self.decline)
        return [
            self._courtesy(rng, rng.choice(kinds)(rng, given).messages if rng.random() < 0.45 else [], specs)
            for _ in range(count)
        ]

    def _courtesy(
        self, rng: random.Random, middle: list[Message], specs: list[dict[str, Any]]
    ) -> Conversation:
        """Small talk around the messages of a conversation, which may be none."""
        names = [t["name"] for t in specs]
        opened = [m for m in middle if m.role == "system"] or system(rng, self.pools)
        turns = [m for m in middle if m.role != "system"]
        before = rng.choice([0, 0, 1]) if turns else rng.choice([1, 1, 1, 2, 3])
        after = rng.choice([1, 1, 2]) if turns else 0
        head = [m for _ in range(before) for m in self._said(rng, names, FIRST)]
        tail = [m for _ in range(after) for m in self._said(rng, names, LAST)]
        return Conversation("chat", specs, [*opened, *head, *turns, *tail])

    def _without_tools(self, rng: random.Random) -> Conversation:
        messages = system(rng, self.pools) if rng.random() < 0.5 else []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            if rng.random() < 0.15:
                asked = single(rng, self.smith.everyday(rng)).request
                messages += [Message("user", asked), Message("assistant", pick(rng, NO_TOOLS, self.split))]
            else:
                messages += self._said(rng, [], FIRST if rng.random() < 0.8 else LAST)
        return Conversation("chat", [], messages)

    def _said(self, rng: random.Random, names: list[str], kinds: tuple[str, ...]) -> list[Message]:
        asked, answer = exchange(rng, self.split, names, kinds)
        return [Message("user", asked), Message("assistant", answer)]

    # ── agents that hand over ──

    def handovers(self, rng: random.Random, most: int) -> list[Conversation]:
        """Who decides to whom a request goes, and the first turns of who takes it over."""
        desks = handoffs.colleagues(rng, self.split)
        count = min(most, rng.randint(5, 10))
        able = [d for d in desks if d.specialist.sketches]
        if able and rng.random() < 0.45:
            return self._taken_over(rng, rng.choice(able), desks, count)
        specs = [d.spec(rng, self.split) for d in desks]
        own: Tool | None = None
        known = list(desks)  # whose requests somebody here serves
        stranger = self._stranger(rng, desks)
        if stranger.specialist.sketches and rng.random() < 0.3:
            own = self.smith.everyday(rng, rng.choice(stranger.specialist.sketches))
            known.append(stranger)
            specs.insert(rng.randint(0, len(specs)), own.spec())
        front = [Message("system", rng.choice(handoffs.FRONT))] if rng.random() < 0.7 else []
        made = []
        for _ in range(count):
            roll = rng.random()
            turns: list[Message] = []
            if roll < 0.15:
                abouts = [d.specialist.about for d in desks] + ([own.topic] if own else [])
                turns = self._said(rng, abouts, FIRST)
            elif roll < 0.3:
                asked = self._for(rng, self._stranger(rng, known))
                turns = [
                    Message("user", asked),
                    Message("assistant", pick(rng, handoffs.NOBODY, self.split)),
                ]
            if own and roll > 0.8:
                task = single(rng, own)
                turns = [Message("user", task.request), Message("assistant", "", task.calls)]
            elif roll < 0.05 or roll >= 0.3:
                desk = rng.choice(desks)
                turns += [
                    Message("user", self._for(rng, desk)),
                    Message("assistant", "", ((desk.tool_name, {}),)),
                ]
            made.append(Conversation("call" if turns[-1].calls else "chat", specs, [*front, *turns]))
        return made

    def _taken_over(
        self, rng: random.Random, desk: handoffs.Desk, desks: list[handoffs.Desk], count: int
    ) -> list[Conversation]:
        """The specialist's turns after the hand-over: behind what was said before it, or told the task alone. It
        reads the call and its note where it had the conversation before."""
        split, sketches = self.split, desk.specialist.sketches
        own = rng.sample(sketches, min(len(sketches), rng.choice([1, 2, 2, 3, 4])))
        tools = list({t.name: t for t in (self.smith.everyday(rng, s) for s in own)}.values())
        specs = [t.spec() for t in tools]
        if rng.random() < 0.3:  # it may hand over in its turn
            specs += [d.spec(rng, split) for d in desks if d is not desk]
        opened = [Message("system", desk.fill(rng.choice(handoffs.BACK)))] if rng.random() < 0.7 else []
        made = []
        for _ in range(count):
            tool = rng.choice(tools)
            task = single(rng, tool)
            asked, calls, text = task.request, task.calls, ""
            if rng.random() < 0.12:
                asked, calls = desk.fill(pick(rng, handoffs.VAGUE, split)), ()
                text = desk.fill(pick(rng, handoffs.WHAT, split))
            given: dict[str, Any] = {}
            if rng.random() < 0.35:
                given = {"reason": desk.fill(rng.choice(handoffs.REASONS))}
            turns = [Message("user", asked)]
            if rng.random() < 0.25:
                turns += [
                    Message("assistant", "", ((desk.tool_name, given),), trained=False),
                    Message("tool", desk.note),
                ]
            elif given:
                turns = [Message("user", f"{asked}\n\n[Handed over: {dumps(given)}]")]
            turns.append(Message("assistant", text, calls))
            if calls and rng.random() < 0.4:
                found = result(rng, self.pools, tool, calls, 0)
                turns += [Message("tool", found.text), Message("assistant", found.said)]
                if rng.random() < 0.4:
                    turns += self._said(rng, [t["name"] for t in specs], LAST)
            made.append(Conversation("run" if calls else "chat", specs, [*opened, *turns]))
        return made

    def _for(self, rng: random.Random, desk: handoffs.Desk) -> str:
        """A request that belongs to the specialist."""
        one = desk.specialist
        if one.sketches and rng.random() < (0.5 if one.requests else 0.8):
            return single(rng, self.smith.everyday(rng, rng.choice(one.sketches))).request
        return desk.told(rng, self.kinds)

    def _stranger(self, rng: random.Random, desks: list[handoffs.Desk]) -> handoffs.Desk:
        """Another specialist, of a group and of domains that are none of theirs."""
        groups = {d.specialist.group for d in desks}
        taken = {s.domain for d in desks for s in d.specialist.sketches}
        apart = [
            s
            for s in handoffs.SPECIALISTS
            if s.group not in groups and not any(k.domain in taken for k in s.sketches)
        ]
        return handoffs.Desk.drawn(rng, rng.choice(apart), self.split)

    # ── everyday tools by hints ──

    def hinted(self, rng: random.Random, most: int) -> list[Conversation]:
        """Requests that do not say what is to be done, beside tools of the desk or not."""
        kit = Kit.of(rng, self.kinds)
        made: list[Conversation] = []
        while len(made) < min(most, 5 + 2 * len(kit.drawn)):
            calls: tuple[Call, ...] = ()
            match rng.choices(("one", "more", "none", "astray", "open", "talk"), (50, 15, 15, 3, 11, 6))[0]:
                case "talk":
                    made.append(self._courtesy(rng, [], kit.specs))
                    continue
                case "astray":
                    made.append(self._astray(rng, kit.specs))
                    continue
                case "open":
                    if (lacks := kit.open(rng)) is not None:
                        asked, missing, value, task = lacks
                        made.append(self._asked_back(rng, kit.specs, asked, missing, value, task.calls))
                    continue
                case "none":
                    asked = kit.none(rng)
                case kind:
                    asked, calls = (kit.one if kind == "one" else kit.more)(rng)
            if asked:
                turn = Message("assistant", "" if calls else pick(rng, DECLINES, self.split), calls)
                messages = [*system(rng, self.pools), Message("user", asked), turn]
                made.append(Conversation("call" if calls else "decline", kit.specs, messages))
        return [_opened(c, kit.today.sentence) for c in made] if kit.today else made

    # ── the tools that most agents are given ──

    def usual(self, rng: random.Random, most: int) -> list[Conversation]:
        """Plain requests for the usual tools and for others beside them, and what none of them serves."""
        bench = Bench(rng, self.pools, self.split)
        others: list[Tool] = []
        if rng.random() < 0.35:
            drawn = [self.smith.everyday(rng, s) for s in rng.sample(_CALM, rng.choice([1, 1, 2, 3]))]
            others = list({t.name: t for t in drawn if t.name not in bench.names.values()}.values())
        specs = [*bench.specs, *(t.spec() for t in others)]
        specs = rng.sample(specs, len(specs))
        made: list[Conversation] = []
        while len(made) < min(most, 6 + len(specs)):
            kind = rng.choices(("call", "run", "more", "other", "none", "talk"), (34, 30, 10, 12, 14, 6))[0]
            if kind == "talk":
                made.append(self._courtesy(rng, [], specs))
                continue
            if kind == "none":
                asked = self._useless(rng, bench)
                turns = [Message("user", asked), Message("assistant", pick(rng, DECLINES, self.split))]
            elif kind == "other":
                if not others:
                    continue
                task = single(rng, rng.choice(others))
                turns = [Message("user", task.request), Message("assistant", "", task.calls)]
            else:
                turns = []
                for _ in range(rng.choice([1, 1, 1, 2]) if kind == "run" else 1):
                    turns += self._step(rng, bench, kind)
            what = "run" if len(turns) > 2 else "call" if turns[-1].calls else "decline"
            made.append(Conversation(what, specs, [*system(rng, self.pools), *turns]))
        return made

    def _step(self, rng: random.Random, bench: Bench, kind: str) -> list[Message]:
        if kind == "more":
            asked, steps = bench.several(rng)
        else:
            steps = [bench.step(rng)]
            asked = steps[0].request
        calls = tuple(s.call for s in steps)
        thought = self._plan(rng, calls, 0.25)
        turns = [Message("user", asked), Message("assistant", thought, calls)]
        if kind == "call":
            return turns
        failed = failure(rng, calls[0]) if len(steps) == 1 and rng.random() < 0.08 else None
        if failed:
            return [*turns, Message("tool", failed.text), Message("assistant", failed.said)]
        turns += [Message("tool", s.result) for s in steps]
        return [*turns, Message("assistant", " ".join(s.answer for s in steps))]

    def _useless(self, rng: random.Random, bench: Bench) -> str:
        """What none of the usual tools does; a question only where nothing searches the web."""
        if not bench.searches and rng.random() < 0.5:
            return bench.question(rng)
        return pick(rng, _WISHES, self.split)

    # ── no call ──

    def decline(self, rng: random.Random, given: list[Tool]) -> Conversation:
        lettered = self._lettered(rng, given) if rng.random() < 0.1 else ""
        request = lettered or self._unserved(rng, given)
        text = pick(rng, VALUES_WANTED if lettered else DECLINES, self.split)
        if rng.random() < 0.3 and not lettered:
            text += " " + rng.choice(
                ["I can only {t}.", "What I can do is: {t}.", "They serve to {t}."]
            ).format(t=", ".join(words(t.name) for t in given[:4]))
        messages = [*system(rng, self.pools), Message("user", request), Message("assistant", text)]
        return Conversation("decline", [t.spec() for t in given], messages)

    def astray(self, rng: random.Random, given: list[Tool]) -> Conversation:
        """What people ask an assistant that has other tools, and what they say without asking for anything."""
        return self._astray(rng, [t.spec() for t in given])

    def _astray(self, rng: random.Random, specs: list[dict[str, Any]]) -> Conversation:
        request, text = self.unserved.turn(rng, specs)
        messages = [*system(rng, self.pools), Message("user", request), Message("assistant", text)]
        return Conversation("decline", specs, messages)

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
            if roll < 0.75 and not any(t.topic in SERVING for t in given):
                return plain_question(rng, self.pools, self.split)
            asked = self.smith.tool(rng)
            if not any(_akin(asked, t) for t in given):
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
        call = (tool.name, plain(spoken))
        return self._asked_back(
            rng, [t.spec() for t in given], request, missing, spoken[missing.name], (call,)
        )

    def _asked_back(
        self,
        rng: random.Random,
        specs: list[dict[str, Any]],
        request: str,
        missing: Param,
        value: Spoken,
        calls: tuple[Call, ...],
    ) -> Conversation:
        """A request that lacks a value, the question for it, the value, the calls."""
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
        reply = rng.choice(["{v}", "{v}.", "Use {v}.", "It's {v}.", "Take {v}, please."]).format(v=value.text)
        messages = [
            *system(rng, self.pools),
            Message("user", request),
            Message("assistant", question),
            Message("user", reply),
            Message("assistant", "", calls),
        ]
        return Conversation("clarify", specs, messages)

    def chat(self, rng: random.Random, given: list[Tool]) -> Conversation:
        """A short conversation with tools in sight."""
        messages = system(rng, self.pools)
        for asked, answer in small_talk(rng, self.pools, self.split, [t.name for t in given]):
            messages += [Message("user", asked), Message("assistant", answer)]
        return Conversation("chat", [t.spec() for t in given], messages)


_CALM = [s for s in SKETCHES if s.domain in ("home", "travel", "food", "weather", "lists")]
_WISHES = tuple(u for u in UNSERVED if not u.endswith("?") and not LOOKED_UP.search(u))
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
    return a.topic == b.topic or (bool(a.sketch) != bool(b.sketch) and _akin(a, b))


def _akin(a: Tool, b: Tool) -> bool:
    """Whether one tool might serve a request for the other."""
    return a.topic == b.topic or bool((set(a.topic.split()) & set(b.topic.split())) - COMMON)


def _opened(conversation: Conversation, sentence: str) -> Conversation:
    """With a sentence at the end of its system message, or as one."""
    first, rest = conversation.messages[0], conversation.messages
    if first.role == "system":
        sentence, rest = f"{first.text} {sentence}", rest[1:]
    return replace(conversation, messages=[Message("system", sentence), *rest])
