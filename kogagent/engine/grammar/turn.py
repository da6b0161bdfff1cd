"""Turns: free text, a trigger, tool calls, an end. Knows call formats and bytes; no JSON Schema.

Free text is any UTF-8. The trigger counts outside code fences only (a line that starts with ``` or ~~~ opens
one, the next such line closes it). Where the trigger is one special id, that id alone is the trigger and its
name spelled by other tokens stays text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from kogagent.engine.grammar.automaton import COUNT, END, FINISHED, RETURN, TARGET
from kogagent.engine.grammar.builder import Builder, Conflict
from kogagent.engine.grammar.library import library
from kogagent.engine.grammar.shapes import Bounds
from kogagent.engine.grammar.trie import TokenTrie
from kogagent.engine.grammar.utf8 import Spans, sequences
from kogagent.errors import InputError
from kogagent.spec import CallFormat
from kogagent.spec.scan import INSIDE, NO_FENCE, FenceState, fence_step, matched, spell, trigger_of

Mode = str
"""auto: the text may end or go over to calls. lead: it must go over to calls. none: it may only end."""

_CHARS = sequences(0, 0x10FFFF)


@lru_cache(maxsize=32)
def text_states(
    digits: int, missing: frozenset[int], trigger: tuple[int, ...], mode: Mode
) -> tuple[Builder, int]:
    """The library and behind it the states of free text; RETURN behind the trigger. Builder and start."""
    shared = library(digits, missing).builder
    builder = Builder(shared, f"{shared.library}/text/{trigger}/{mode}")
    first = len(builder.rows)
    special = trigger[0] if trigger and trigger[0] >= END else None
    pattern = () if special is not None else trigger
    index: dict[tuple[Spans, int, FenceState], int] = {}
    queue: list[tuple[Spans, int, FenceState]] = []

    def number(key: tuple[Spans, int, FenceState]) -> int:
        if key not in index:
            index[key] = builder.state()
            queue.append(key)
        return index[key]

    start = number(((), 0, NO_FENCE))
    for key in queue:
        rest, known, fence = key
        row = builder.rows[index[key]]
        if rest:
            for byte in range(rest[0][0], rest[0][1] + 1):
                row[byte] = number((rest[1:], 0, fence))
            continue
        if mode != "lead":
            row[END] = FINISHED
        if special is not None and mode != "none" and not fence[0]:
            row[special] = RETURN
        for spans in _CHARS:
            for byte in range(spans[0][0], spans[0][1] + 1):
                if len(spans) > 1:
                    row[byte] = number((spans[1:], 0, (fence[0], INSIDE)))
                    continue
                after = fence_step(fence, byte)
                hit = 0 if after[0] or not pattern else matched(pattern, known, byte)
                if pattern and hit == len(pattern):
                    if mode != "none":
                        row[byte] = RETURN
                else:
                    row[byte] = number(((), hit, after))
    builder.bodies = builder.bodies | frozenset(range(first, len(builder.rows)))
    builder.without(missing, first)
    return builder, start


@lru_cache(maxsize=32)
def thought_states(
    digits: int, missing: frozenset[int], trigger: tuple[int, ...], mode: Mode, end: tuple[int, ...]
) -> tuple[Builder, int, int]:
    """`text_states` and behind them those of thoughts; RETURN behind `end`. Builder, text, thoughts.

    Code points count, but for those that may be the beginning of `end`: it can always still be written.
    """
    shared, text = text_states(digits, missing, trigger, mode)
    builder = Builder(shared, f"{shared.library}/thoughts/{end}")
    first = len(builder.rows)
    special = end[0] if end[0] >= END else None
    index: dict[tuple[Spans, int], int] = {}
    queue: list[tuple[Spans, int]] = []

    def number(key: tuple[Spans, int]) -> int:
        if key not in index:
            index[key] = builder.state()
            queue.append(key)
        return index[key]

    start = number(((), 0))
    for key in queue:
        rest, known = key
        row = builder.rows[index[key]]
        if rest:
            row.update(dict.fromkeys(range(rest[0][0], rest[0][1] + 1), number((rest[1:], 0))))
            continue
        if special is not None:
            row[special] = RETURN
        for spans in _CHARS:
            for byte in range(spans[0][0], spans[0][1] + 1):
                hit = 0 if special is not None or len(spans) > 1 else matched(end, known, byte)
                if hit == len(end):
                    row[byte] = RETURN
                else:
                    row[byte] = number((spans[1:], hit)) | (COUNT if hit != known + 1 else 0)
    builder.bodies = builder.bodies | frozenset(range(first, len(builder.rows)))
    builder.without(missing, first)
    return builder, text, start


def opened(builder: Builder, start: int, symbols: Sequence[int], move: int) -> int:
    """`start`, where `symbols` make `move` before anything else. Conflict where `start` counts there."""
    rows = builder.rows
    path: list[int | None] = [start]
    for symbol in symbols[:-1]:
        at = path[-1]
        old = None if at is None else rows[at].get(symbol)
        if old is not None and (old & ~TARGET or old in (FINISHED, RETURN)):
            raise Conflict
        path.append(old)
    for old, symbol in zip(reversed(path), reversed(symbols), strict=True):
        copy = builder.state({**(rows[old] if old is not None else {}), symbol: move})
        if old in builder.final:
            builder.final.add(copy)
        move = copy
    return move


class Calls:
    """The states of a turn's calls. `tools` yields for each tool its name's bytes and the writer of its
    arguments, given the state that follows them."""

    def __init__(self, builder: Builder, form: CallFormat, names: Mapping[str, int], max_calls: int) -> None:
        self.builder = builder
        self.call = builder.state()
        done = builder.state({END: FINISHED})
        end = spell(form.end, names)
        between = spell(form.between, names) if form.parallel and max_calls > 1 else ()
        # A further call is counted where it can first be told from the end, so that the last call still ends.
        ends = builder.branch(end, done, between, self.call, COUNT) if between else builder.literal(end, done)
        self.after = builder.literal(spell(form.suffix, names), ends)
        self.prefix = spell(form.prefix, names)
        self.middle = spell(form.middle, names)

    def tools(self, entries: Iterable[tuple[bytes, int]]) -> None:
        """(name as it is written, state of its arguments) of every tool."""
        # What stands between a name and its arguments is one call for all tools.
        builder = self.builder
        middle = builder.literal(self.middle[1:], RETURN)
        root = builder.state()
        for name, entry in entries:
            if not self.middle:
                ((symbol, move),) = builder.rows[entry].items()  # arguments open with one text
                builder.insert(root, (*name, symbol), move)
                continue
            builder.insert(
                root, (*name, self.middle[0]), builder.call(middle, entry) if middle != RETURN else entry
            )
        self.builder.rows[self.call] = self.builder.rows[self.builder.literal(self.prefix, root)]


def begin_rest(form: CallFormat, names: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The trigger's symbols and what of `begin` follows them."""
    begin = spell(form.begin, names)
    trigger = trigger_of(spell(form.trigger, names))
    return trigger, begin[len(trigger) :]


class Opening:
    """What a turn may start with: thoughts, free text, the trigger of its calls. builder holds their states,
    text is the start of free text."""

    def __init__(
        self, trie: TokenTrie, form: CallFormat, mode: str, bounds: Bounds, notes: dict[str, None]
    ) -> None:
        self._form, self._trie, self._bounds, self._notes = form, trie, bounds, notes
        self.trigger, self.rest = begin_rest(form, trie.names)
        if not self.trigger or (self.trigger[0] < END and any(symbol >= END for symbol in self.trigger)):
            raise InputError(f"format {form.name!r}: its trigger must be text or start with a special id")
        mode = "none" if form.at_start else mode
        sought = () if form.at_start else self.trigger
        base, self.text = text_states(bounds.digits, trie.unspellable, sought, mode)
        self._think_end = spell(form.think_end, trie.names)
        if self._think_end:
            if len(self._think_end) > 1 and any(symbol >= END for symbol in self._think_end):
                raise InputError(f"format {form.name!r}: think_end must be text or one special id")
            base, self.text, self._thoughts = thought_states(
                bounds.digits, trie.unspellable, sought, mode, self._think_end
            )
        self.builder = Builder(base)

    def first(self, start: int) -> int:
        """`start`, with thoughts allowed before it."""
        if not self._think_end:
            return start
        form, names, most = self._form, self._trie.names, self._bounds.thoughts
        self._notes[f"thoughts: at most {most} code points"] = None
        back = self.builder.literal(spell(form.think_gap, names), start)
        call = self.builder.call(self._thoughts, back, 0, most)
        try:
            return opened(self.builder, start, spell(form.think_begin, names), call)
        except Conflict:
            raise InputError(
                f"format {form.name!r}: what comes first starts like {form.think_begin!r}"
            ) from None
