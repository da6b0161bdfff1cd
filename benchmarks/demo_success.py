"""How often the demo answers right: `python -m benchmarks.demo_success [--model NAME] [--record]`.

Two sets of 30 questions about the museum. Prompt, tools and worked examples were chosen while looking at the
first; the second was written afterwards and run once the choice was made. A run counts when its final answer
holds every expected name or number as a word of its own. Greedy, so a second run says the same.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.common import Figure, append, make_record, show
from kogagent.demo import DEFAULT_MODEL, demo_history, demo_model, museum_agent
from kogagent.errors import KogagentError
from kogagent.local import Engine
from kogagent.types import AssistantMessage, RunResult, ToolMessage


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what a right answer holds."""

    text: str
    expected: tuple[str, ...]

    def __init__(self, text: str, *expected: str) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "expected", expected)

    def is_answered(self, answer: str) -> bool:
        """Each expected text stands in the answer, not as a part of a longer word or number."""
        plain = re.sub(r"(?<=\d),(?=\d{3})", "", answer)
        return all(re.search(rf"(?<![\w.]){re.escape(e)}(?!\w|\.\d)", plain, re.I) for e in self.expected)


TUNED = (
    Question("How many fossils did the Merlin expedition find?", "8"),
    Question("How many fossils are shells?", "6"),
    Question("What is the mass of Garnet?", "118"),
    Question("Which fossil is the heaviest?", "Garnet"),
    Question("Who led the Osprey expedition?", "Lena Marsh"),
    Question("How many days did the Heron expedition last?", "35"),
    Question("What does a puzzle cost in the shop?", "17"),
    Question("How many posters were sold?", "312"),
    Question("In which room is Juniper?", "3"),
    Question("Which expedition cost the most?", "Merlin"),
    Question("What is the total mass of the fossils from the Osprey expedition?", "104"),
    Question("Who was the cook of the Merlin expedition?", "Ada Renn"),
    Question("Who is the night guard?", "Petra Lund"),
    Question("What is the emergency telephone number?", "4471"),
    Question("How often must the oil of the generator be changed?", "120"),
    Question("When does the guided tour start?", "11:15"),
    Question("Where is Saffron on loan?", "Brescow"),
    Question("What was the name of the boat of the Osprey expedition?", "Halcyon"),
    Question("On which day is the museum closed?", "Tuesday"),
    Question("Under what was Bramble found?", "stone"),
    Question("How high was the base camp of the Merlin expedition in metres?", "1036.32"),
    Question("How many gallons of diesel does the tank of the generator hold?", "10.04"),
    Question("How heavy is Lark in pounds?", "156.53"),
    Question("How many kilometres did the Kestrel team walk?", "135.18"),
    Question("How heavy are all bone fossils together in pounds?", "789.26"),
    Question("How much money did the shop take for mugs?", "2255"),
    Question("How much do tickets for 2 adults and 3 children cost?", "46"),
    Question("What did the Merlin expedition cost per day?", "36150", "63", "573.81"),
    Question("How much does the insurance of a loan cost for 6 months?", "2700"),
    Question("How many fossils did the Osprey expedition find, and how many miles did it sail?", "6", "310"),
)  # fmt: skip
HELD_OUT = (
    Question("How many fossils did the Osprey expedition find?", "6"),
    Question("How many fossils are ferns?", "6"),
    Question("How heavy is Violet?", "25"),
    Question("What is the mass of Umber?", "14"),
    Question("Which bone fossil is the heaviest?", "Garnet"),
    Question("Who was the leader of the Merlin expedition?", "Tomas Vidal"),
    Question("In which year was the Osprey expedition?", "2017"),
    Question("How many days did the Osprey expedition take?", "28"),
    Question("What did the Kestrel expedition cost?", "18400"),
    Question("What is the price of a poster?", "8"),
    Question("How many mugs did the shop sell?", "205"),
    Question("How many magnets are in stock?", "410"),
    Question("In which room is Lark?", "3"),
    Question("What kind of fossil is Quill?", "fish"),
    Question("Which expedition was the shortest?", "Osprey"),
    Question("Who was the cook of the Osprey expedition?", "Joao Prado"),
    Question("Where did the base camp of the Osprey expedition stand?", "Gull Island"),
    Question("How many litres of diesel does the generator burn an hour?", "4"),
    Question("What does a child ticket cost?", "6"),
    Question("Which key starts the generator?", "red"),
    Question("How many glaciers did the Merlin team cross?", "two"),
    Question("How warm was the warmest day of the Osprey expedition?", "34"),
    Question("Until when is Saffron lent?", "August"),
    Question("What does the insurance of a loan cost a month?", "450"),
    Question("How heavy is Bramble in pounds?", "136.69"),
    Question("How many kilometres did the Heron team walk?", "75.64"),
    Question("How heavy is Willow in grams?", "16000"),
    Question("How much money did the shop take for posters?", "2496"),
    Question("What did the Osprey expedition cost per day?", "817.86"),
    Question("How much do 7 child tickets cost?", "42"),
)
SETS = {"tuned": TUNED, "held-out": HELD_OUT}


async def answer(engine: Engine, question: str) -> RunResult:
    """One run of the demo, as `kogagent demo --ask` makes it."""
    return await museum_agent(demo_model(engine)).run(question, history=demo_history(engine, question))


def transcript(result: RunResult, shown: int) -> list[str]:
    """The run's own messages in a few words each; `shown` messages in front are what the demo puts there."""
    lines = []
    for message in result.messages[shown:]:
        if isinstance(message, AssistantMessage):
            calls = " ".join(f"{call.name} {call.arguments}" for call in message.calls)
            lines.append(" | ".join(part for part in (message.plan, calls, message.text) if part))
        elif isinstance(message, ToolMessage):
            lines.append("  -> " + message.result.text.replace("\n", " / ")[:120])
    return lines


async def score(engine: Engine, questions: Sequence[Question], *, verbose: bool) -> float:
    """The share of questions answered right. A run that fails counts as wrong."""
    right = 0
    for question in questions:
        started = time.perf_counter()
        lines: list[str]
        try:
            result = await answer(engine, question.text)
        except KogagentError as error:
            good, lines = False, [f"{type(error).__name__}: {error}"]
        else:
            good = question.is_answered(str(result.output or ""))
            lines = transcript(result, len(demo_history(engine, question.text)) + 2)
        right += good
        print(f"{'right' if good else 'WRONG'}  {time.perf_counter() - started:5.1f} s  {question.text}")
        if verbose or not good:
            print("\n".join("           " + line for line in lines), flush=True)
    return right / len(questions)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--set", choices=sorted(SETS), help="one set instead of both")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--verbose", action="store_true", help="show the runs that are right, too")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/results")
    options = parser.parse_args()
    records = []
    with Engine.load(options.model, device=options.device) as engine:
        for name in [options.set] if options.set else SETS:
            share = asyncio.run(score(engine, SETS[name], verbose=options.verbose))
            records.append(
                make_record(
                    "demo_success",
                    f"{options.model}/{name}",
                    engine.backend_name,
                    "share",
                    Figure((share,)),
                    limit=1.0,
                    note=f"{len(SETS[name])} questions, greedy, dtype auto",
                )
            )
    show(records)
    if options.record:
        append(records)
    return 0


if __name__ == "__main__":
    sys.exit(main())
