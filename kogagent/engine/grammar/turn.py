"""Turns: free text, a trigger, tool calls, an end. Knows call formats and bytes; no JSON Schema.

Free text is any UTF-8. The trigger counts outside code fences only (a line that starts with ``` or ~~~ opens
one, the next such line closes it). Where the trigger is one special id, that id alone is the trigger and its
name spelled by other tokens stays text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from kogagent.engine.grammar.automaton import (
    COUNT,
    END,
    FINISHED,
    RETURN,
    SPECIAL,
    TARGET,
    Builder,
    Conflict,
)
from kogagent.engine.grammar.library import library
from kogagent.engine.grammar.utf8 import Spans, sequences
from kogagent.spec import CallFormat

Mode = str
"""auto: the text may end or go over to calls. lead: it must go over to calls. none: it may only end."""

_CHARS = sequences(0, 0x10FFFF)


def spell(text: str, names: Mapping[str, int]) -> tuple[int, ...]:
    """The symbols of a format's text: its bytes, and where the name of a special id stands, that id."""
    out: list[int] = []
    at = 0
    ordered = sorted(names, key=len, reverse=True) if any(n in text for n in names) else []
    while at < len(text):
        name = next((n for n in ordered if text.startswith(n, at)), None)
        if name is None:
            out += text[at].encode()
            at += 1
        else:
            out.append(SPECIAL + names[name])
            at += len(name)
    return tuple(out)


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
    index: dict[tuple[Spans, int, str, str], int] = {}
    queue: list[tuple[Spans, int, str, str]] = []

    def number(key: tuple[Spans, int, str, str]) -> int:
        if key not in index:
            index[key] = builder.state()
            queue.append(key)
        return index[key]

    start = number(((), 0, "line", ""))
    for key in queue:
        rest, matched, line, fence = key
        row = builder.rows[index[key]]
        if rest:
            for byte in range(rest[0][0], rest[0][1] + 1):
                row[byte] = number((rest[1:], 0, "inside", fence))
            continue
        if mode != "lead":
            row[END] = FINISHED
        if special is not None and mode != "none" and not fence:
            row[special] = RETURN
        for spans in _CHARS:
            for byte in range(spans[0][0], spans[0][1] + 1):
                if len(spans) > 1:
                    row[byte] = number((spans[1:], 0, "inside", fence))
                    continue
                next_line, next_fence = _line(line, fence, byte)
                hit = 0 if next_fence or not pattern else _matched(pattern, matched, byte)
                if pattern and hit == len(pattern):
                    if mode != "none":
                        row[byte] = RETURN
                else:
                    row[byte] = number(((), hit, next_line, next_fence))
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
        rest, matched = key
        row = builder.rows[index[key]]
        if rest:
            row.update(dict.fromkeys(range(rest[0][0], rest[0][1] + 1), number((rest[1:], 0))))
            continue
        if special is not None:
            row[special] = RETURN
        for spans in _CHARS:
            for byte in range(spans[0][0], spans[0][1] + 1):
                hit = 0 if special is not None or len(spans) > 1 else _matched(end, matched, byte)
                if hit == len(end):
                    row[byte] = RETURN
                else:
                    row[byte] = number((spans[1:], hit)) | (COUNT if hit != matched + 1 else 0)
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


def _line(line: str, fence: str, byte: int) -> tuple[str, str]:
    """Where a byte leads: "line" + blanks at the start of a line, a mark's beginning, or "inside"."""
    char = chr(byte)
    if char == "\n":
        return "line", fence
    if line.startswith("line"):
        if char == " " and len(line) < len("line") + 3:
            return line + " ", fence
        if char in "`~" and (not fence or fence == char):
            return char, fence
        return "inside", fence
    if line[0] in "`~" and char == line[0]:
        if len(line) == 2:
            return "inside", "" if fence else char
        return line + char, fence
    return "inside", fence


def _matched(pattern: Sequence[int], matched: int, byte: int) -> int:
    """Length of the longest beginning of `pattern` the text ends in, after one byte more."""
    text = [*pattern[:matched], byte]
    for length in range(min(len(text), len(pattern)), 0, -1):
        if text[-length:] == list(pattern[:length]):
            return length
    return 0


class Calls:
    """The states of a turn's calls. `tools` yields for each tool its name's bytes and the writer of its
    arguments, given the state that follows them."""

    def __init__(self, builder: Builder, form: CallFormat, names: Mapping[str, int], max_calls: int) -> None:
        self.builder = builder
        self.call = builder.state()
        done = builder.state({END: FINISHED})
        end = spell(form.end, names)
        between = spell(form.between, names) if form.parallel and max_calls > 1 else ()
        shared = 0
        while shared < min(len(end), len(between)) and end[shared] == between[shared]:
            shared += 1
        if between and shared == len(between):
            raise Conflict
        fork = builder.state(dict(builder.rows[done]) if shared == len(end) else {})
        rows = builder.rows
        if shared < len(end):
            rows[fork][end[shared]] = builder.literal(end[shared + 1 :], done)
        if between:
            # Counted where another call can first be told from the end, so that the last call still ends.
            rows[fork][between[shared]] = builder.literal(between[shared + 1 :], self.call) | COUNT
        self.after = builder.literal(spell(form.suffix, names), builder.literal(end[:shared], fork))
        self.prefix = spell(form.prefix, names)
        self.middle = spell(form.middle, names)

    def tools(self, entries: Iterable[tuple[bytes, int]]) -> None:
        """(name as JSON text, state of its arguments) of every tool."""
        # What stands between a name and its arguments is one call for all tools.
        builder = self.builder
        middle = builder.literal(self.middle[1:], RETURN)
        root = builder.state()
        for name, entry in entries:
            builder.insert(
                root, (*name, self.middle[0]), builder.call(middle, entry) if middle != RETURN else entry
            )
        self.builder.rows[self.call] = self.builder.rows[self.builder.literal(self.prefix, root)]


def begin_rest(form: CallFormat, names: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The trigger's symbols and what of `begin` follows them.

    A trigger that holds a special id is cut to that id: nothing else can write it.
    """
    begin = spell(form.begin, names)
    trigger = spell(form.trigger, names)
    specials = [i for i, symbol in enumerate(trigger) if symbol >= END]
    if specials and specials[0] == 0:
        trigger = trigger[:1]
    return trigger, begin[len(trigger) :]


def bytes_of(symbols: Iterable[int]) -> Iterator[int]:
    """The symbols that are bytes."""
    return (symbol for symbol in symbols if symbol < END)
