"""Runs that follow each other on one history and one model: fork, rewind, best of several. Knows no
tokens."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, cast

from kogagent.errors import InputError
from kogagent.loop.channel import Channel, Nobody
from kogagent.loop.cleanup import close, finish_within
from kogagent.loop.handoff import Handoff
from kogagent.loop.limits import Limits
from kogagent.loop.observers import RunInfo, Watched
from kogagent.loop.protocols import ForkingModel, Model, TurnRequest
from kogagent.loop.run import Run
from kogagent.loop.setup import Setup, Sink
from kogagent.loop.stream import AgentStream
from kogagent.loop.transcript import Transcript
from kogagent.sampling import SamplingParams
from kogagent.types import Answer, Approved, Denied, Message, RunResult, Supplied, Usage, UserMessage
from kogagent.types.context import Deps
from kogagent.types.events import Out

if TYPE_CHECKING:
    from kogagent.loop.agent import Agent

History: TypeAlias = Transcript | Sequence[Message]
Score: TypeAlias = Callable[[RunResult[Out]], float | Awaitable[float]]

_CLOSE_S = 5.0
_DRAWN = SamplingParams(temperature=0.8)


@dataclass(frozen=True, slots=True)
class BestOf(Generic[Out]):
    """What `best_of` chose. results holds every run in order, an exception where one failed; scores their
    scores, None where there is none."""

    best: RunResult[Out]
    results: tuple[RunResult[Out] | Exception, ...]
    scores: tuple[float | None, ...]

    @property
    def usage(self) -> Usage:
        """Of all runs together."""
        return sum((one.usage for one in self.results if isinstance(one, RunResult)), Usage())


class Conversation(Generic[Deps, Out]):
    """One history and the model that knows it, from run to run; made by `Agent.conversation`.

    Where a hand-off left it with another agent, that one goes on. Forks share the past and nothing else:
    with an Engine, what is in the cache is copied and not computed again. Use it as a context manager, or
    close it.
    """

    def __init__(
        self,
        agent: Agent[Deps, Out],
        history: History | None = None,
        *,
        models: _Models | None = None,
    ) -> None:
        if isinstance(history, str):
            raise InputError("history is a list of messages. Read JSON with kogagent.messages_from_json.")
        if isinstance(history, RunResult):
            raise InputError("history is a list of messages. Pass result.messages.")
        if history is not None and not isinstance(history, Transcript | Iterable):
            raise InputError(f"history={history!r} is neither a list of messages nor a Transcript")
        self.agent: Agent[Any, Any] = agent
        self.transcript = history if isinstance(history, Transcript) else Transcript.repaired(history or ())
        self._models = models if models is not None else _Models()

    # ── runs ──

    def stream(
        self,
        prompt: str | None = None,
        *,
        deps: Deps | None = None,
        sampling: SamplingParams | None = None,
        limits: Limits | None = None,
        answers: Mapping[str, Answer] | None = None,
        alone: bool = False,
    ) -> AgentStream[Out]:
        """The next run as events; takes what `Agent.run` takes. alone: the conversation ends with it."""
        self._check(prompt, answers, sampling, limits)

        async def drive(channel: Channel) -> RunResult[Out]:
            try:
                return await self.drive(
                    channel, prompt, deps=deps, sampling=sampling, limits=limits, answers=answers
                )
            finally:
                if alone:
                    await self.aclose()

        return AgentStream(drive, self)

    async def run(
        self,
        prompt: str | None = None,
        *,
        deps: Deps | None = None,
        sampling: SamplingParams | None = None,
        limits: Limits | None = None,
        answers: Mapping[str, Answer] | None = None,
    ) -> RunResult[Out]:
        """The next run, to its answer; takes what `Agent.run` takes."""
        self._check(prompt, answers, sampling, limits)
        return await self.drive(
            Nobody(), prompt, deps=deps, sampling=sampling, limits=limits, answers=answers
        )

    async def drive(
        self,
        sink: Sink,
        prompt: str | None = None,
        *,
        deps: Deps | None = None,
        sampling: SamplingParams | None = None,
        limits: Limits | None = None,
        answers: Mapping[str, Answer] | None = None,
    ) -> RunResult[Out]:
        """The next run, told to a sink."""
        agent = self.agent
        self.transcript.acquire()
        watched = None
        try:
            if agent.observers:
                sink = watched = Watched(sink, agent.observers, self._info(prompt))
            self.transcript.close_calls(waiting=prompt is not None and not answers)
            setup = await _Seat(self, agent, sampling).enter(self.transcript, deps)
            if limits is not None:
                setup = replace(setup, limits=limits)
            if prompt is not None and not self.transcript.awaiting:
                self.transcript.post(UserMessage(prompt))
                prompt = None
            result = await Run(setup, self.transcript, sink, deps, answers, prompt).drive()
        except BaseException as error:
            if watched is not None:
                watched.ended(error)
            raise
        finally:
            self.transcript.release()
        if watched is not None:
            watched.ended(None)
        return result

    def _info(self, prompt: str | None) -> RunInfo:
        agent = self.agent
        model = getattr(agent.model, "name", None)
        if not isinstance(model, str):
            model = type(agent.model).__name__
        return RunInfo(agent.name, model, prompt, agent.toolbox.specs, len(self.transcript))

    def _check(
        self,
        prompt: str | None,
        answers: Mapping[str, Answer] | None,
        sampling: SamplingParams | None,
        limits: Limits | None,
    ) -> None:
        """Raises InputError for a run that cannot begin."""
        if prompt is not None and not isinstance(prompt, str):
            raise InputError(f"a prompt is text, not {prompt!r}; pass messages as history=…")
        if sampling is not None and not isinstance(sampling, SamplingParams):
            raise InputError(f"sampling={sampling!r} must be a kogagent.SamplingParams")
        if limits is not None and not isinstance(limits, Limits):
            raise InputError(f"limits={limits!r} must be a kogagent.Limits")
        if answers is not None and not isinstance(answers, Mapping):
            raise InputError(f"answers={answers!r} must say what becomes of each call: {{id: Approved()}}")
        waiting = {call.id: call for call in self.transcript.awaiting}
        for id, answer in (answers or {}).items():
            if id not in waiting:
                known = ", ".join(map(repr, waiting)) or "none"
                raise InputError(f"answers has {id!r}, and no call of that id waits. Waiting are: {known}")
            if not isinstance(answer, Approved | Denied | Supplied):
                raise InputError(f"answers[{id!r}]={answer!r} must be Approved(), Denied(…) or Supplied(…)")
        if waiting and prompt is None and not answers:
            names = ", ".join(f"{call.name} {id!r}" for id, call in waiting.items())
            raise InputError(f"these calls wait for an answer: {names}. Pass answers={{id: Approved()}}.")
        if prompt is None and not any(isinstance(one, UserMessage) for one in self.transcript.view):
            raise InputError(
                "there is nothing to answer: pass a prompt, or a history that holds a user's message"
            )

    # ── elsewhere ──

    async def fork(self, *, messages: int | None = None) -> Conversation[Deps, Out]:
        """A conversation with the same past, or its first so many messages; each goes its own way.

        May be asked for while a run goes on: the fork starts from the last whole message, calls that still
        run are "cancelled" in it.
        """
        transcript = self.transcript.fork()
        if messages is not None:
            transcript.rewind(messages)
        transcript.close_calls(waiting=False)
        return Conversation(self.agent, transcript, models=await self._models.fork())

    def rewind(self, messages: int) -> None:
        """Forget all but the first so many messages; see Transcript.rewind."""
        self.transcript.rewind(messages)

    async def best_of(
        self,
        n: int,
        prompt: str | None = None,
        *,
        score: Score[Out],
        deps: Deps | None = None,
        sampling: SamplingParams | None = None,
        limits: Limits | None = None,
    ) -> BestOf[Out]:
        """Run n forks side by side, each with a seed of its own, and go on as the one with the highest score.

        The prompt is computed once, before the forks. sampling: by default the agent's, else temperature 0.8.
        limits: of each run. score: of a finished run, sync or async. Tools run in every fork: keep to those
        without effects. A run that fails loses; where all fail, the first failure is raised.
        """
        if type(n) is not int or n < 1:
            raise InputError(f"best_of({n!r}): it takes a number of runs >= 1")
        if not callable(score):
            raise InputError(f"score={score!r} must be a function of a run's result that gives a number")
        self._check(prompt, None, sampling, limits)
        base = sampling or self.agent.sampling or _DRAWN
        await self._compute_prefix(prompt, deps)
        branches: list[Conversation[Deps, Out]] = []
        try:
            while len(branches) < n:  # one by one, so that those made are closed if one fails
                branches.append(await self.fork())
            runs = (
                branch.run(
                    deps=deps, sampling=replace(base, seed=(base.seed + number) % 2**64), limits=limits
                )
                for number, branch in enumerate(branches)
            )
            results = await asyncio.gather(*runs, return_exceptions=True)
            scores = [await _scored(score, one) if isinstance(one, RunResult) else None for one in results]
            for one in results:
                if isinstance(one, BaseException) and not isinstance(one, Exception):
                    raise one
            known = [(value, -number) for number, value in enumerate(scores) if value is not None]
            if not known:
                raise next(one for one in results if isinstance(one, BaseException))
            best = -max(known)[1]
            await self._become(branches.pop(best))
        finally:
            for branch in branches:
                await branch.aclose()
        chosen = results[best]
        assert isinstance(chosen, RunResult)
        done = tuple(one for one in results if isinstance(one, RunResult | Exception))
        return BestOf(chosen, done, tuple(scores))

    async def _compute_prefix(self, prompt: str | None, deps: Any) -> None:
        """Put the prompt into the history and, where the model can, into its cache."""
        self.transcript.acquire()
        try:
            self.transcript.close_calls()
            setup = await _Seat(self, self.agent, None).enter(self.transcript, deps)
            if prompt is not None:
                self.transcript.post(UserMessage(prompt))
            await self.transcript.settled()
            if isinstance(setup.model, ForkingModel):
                await setup.model.prefill(TurnRequest(self.transcript.view, setup.tools.specs))
        finally:
            self.transcript.release()

    async def _become(self, branch: Conversation[Deps, Out]) -> None:
        """Go on as a fork has gone on."""
        self.transcript.acquire()
        try:
            head = branch.transcript.messages[0]
            if branch.agent is not self.agent and self.transcript.messages[0] != head:
                self.transcript.with_system(getattr(head, "text", ""))
            for message in branch.transcript.messages[len(self.transcript) :]:
                self.transcript.post(message)
            await self.transcript.settled()
        finally:
            self.transcript.release()
        models, self._models = self._models, branch._models
        self.agent = branch.agent
        await models.aclose()

    # ── closing ──

    async def aclose(self) -> None:
        """Give back what the models hold, an engine's cache say. Idempotent; a later run makes them anew."""
        if self._models.held:
            await finish_within(asyncio.ensure_future(self._models.aclose()), _CLOSE_S)

    async def __aenter__(self) -> Conversation[Deps, Out]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _scored(score: Score[Out], result: RunResult[Out]) -> float:
    value = score(result)
    got = await value if inspect.isawaitable(value) else value
    if not isinstance(got, int | float) or got != got:
        raise InputError(f"score gave {got!r}, which is no number")
    return float(got)


class _Models:
    """The models of a conversation, one an agent: made when first needed, closed with it."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Agent, Model]] = {}  # by the agent's identity; owned by this
        self._given: dict[int, tuple[Agent, Model]] = {}  # forks of models that the agents were given

    def of(self, agent: Agent) -> Model:
        held = self._made.get(id(agent)) or self._given.get(id(agent))
        if held is not None:
            return held[1]
        model: Any = agent.model
        make = getattr(model, "as_model", None)  # how a ModelSource is told: isinstance takes a while
        if make is not None:
            model = make()
        if id(model) != id(agent.model):  # one that gives itself is its owner's to close
            self._made[id(agent)] = (agent, model)
        return cast(Model, model)

    @property
    def held(self) -> bool:
        """Whether there is anything to close."""
        return bool(self._made)

    async def fork(self) -> _Models:
        other = _Models()
        try:
            for key, (agent, model) in self._made.items():
                if isinstance(model, ForkingModel):
                    other._made[key] = (agent, await model.fork())
        except BaseException:
            await other.aclose()
            raise
        return other

    async def aclose(self) -> None:
        made, self._made = self._made, {}
        for _, model in made.values():
            await close(model)


class _Seat:
    """An agent in a conversation: what a run and a hand-off need of it."""

    def __init__(
        self,
        conversation: Conversation,
        agent: Agent,
        sampling: SamplingParams | None,
        handoff: Handoff | None = None,
        had: set[Agent] | None = None,
    ) -> None:
        self._conversation, self._agent = conversation, agent
        self._sampling, self._handoff = sampling, handoff
        self._had = set() if had is None else had  # who has had the conversation in this run

    async def enter(self, transcript: Transcript, deps: Any) -> Setup:
        """Make the conversation this agent's."""
        agent, conversation = self._agent, self._conversation
        if self._handoff is not None:
            back = agent in self._had
            self._handoff.prepare(transcript, conversation.agent.handoffs, back=back)
        self._had.add(agent)
        text = agent.instructions
        if not isinstance(text, str):
            given = text(deps)
            text = await given if inspect.isawaitable(given) else given
            if not isinstance(text, str):
                raise InputError(f"the instructions function gave {text!r}, not text")
        if text:
            transcript.with_system(text)
        conversation.agent = agent
        return Setup(
            model=conversation._models.of(agent),
            tools=agent.toolbox,
            limits=agent.limits,
            name=agent.name,
            tool_choice=agent.tool_choice,
            plan_tokens=agent.plan_tokens,
            observe_tokens=agent.observe_tokens,
            output_schema=agent.output_schema,
            check=agent.check,
            on_tool_error=agent.on_tool_error,
            hooks=agent.hooks,
            guardrails=agent.guardrails,
            compaction=agent.compaction,
            handoffs={
                name: _Seat(conversation, handoff.agent, self._sampling, handoff, self._had)
                for name, handoff in agent.handoffs.items()
            },
            sampling=self._sampling or agent.sampling,
            priority=agent.priority,
        )
