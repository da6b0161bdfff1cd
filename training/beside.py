# ruff: noqa: E501, SIM905 -- sentences are data: one list a line reads better than wrapped ones
"""The desk's tools where they stand beside others: plain requests for them, and which requests are none of theirs."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any

from training.desk import world as worlds
from training.desk.chains import Chain, compute_chain, convert_chain
from training.kinds import Kinds
from training.naming import pick
from training.tools import Call, Tool

ASKS = {
    "list": "what files are there?|Which files do you have?|list the files|List all files.|Show me all the files.|What documents exist?|Which documents can you read?|Give me the names of all files.|ls|Are there any files?|show the file list|What can I read here?|list all documents|Which texts are there?|What do you have on file?|Can you tell me which files exist?|I want to see what files there are.|Please list what can be read.|Name the documents.|What's in the folder?",
    "read": "read {f}|Read {f}, please.|open {f}|Open the file {f}.|show me {f}|What does {f} say?|what's in {f}?|cat {f}|print {f}|Can you read {f} to me?|I'd like to see {f}.|Give me the text of {f}.|What is written in {f}?|load {f}|Display {f}.|Let me see what {f} says.|Have a look at {f}.|What do we have in {f}?|I need the contents of {f}.|Please show what stands in {f}.|{f} please|Could you open {f} for me?",
    "search": "search the files for {t}|Search for {t}.|find {t} in the files|Which file mentions {t}?|Where is {t} mentioned?|grep {t}|Look for {t} in the documents.|Is {t} mentioned anywhere in the files?|Find lines with {t}.|Find all lines that contain {t}.|Which lines contain {t}?|search {t}|Do the files say anything with {t}?|Can you search the documents for {t}?|In which document does {t} occur?|Look through the files for {t}.|Where do the texts say {t}?|Does {t} occur in any file?",
}
_ROWS = "show all rows of {t}|Show me the table {t}.|Give me everything in {t}.|What is in the table {t}?|List all rows of the {t} table.|dump {t}|Everything from {t}, please.|Let me see the whole table {t}."
_COUNT = "How many rows does {t} have?|How many {t} are in the database?|Count the rows of {t}.|count {t} in the database|How many entries are in the table {t}?|What is the number of rows in {t}?"
_COLUMN = "Show the {c} of all {t}.|List the column {c} of {t}.|Give me {c} from the table {t}.|What {c} values are in {t}?|Which {c} are in the {t} table?|select {c} from {t}"
_RUN = "run {q}|Run this query: {q}|Execute {q}|{q}|Ask the database: {q}|What does {q} return?|Please run the SQL {q}"

FILED = re.compile(
    r"file|document|\btexts?\b|table|\brows?\b|record|database|sql|folder|\blines?\b", re.IGNORECASE
)
"""Words of tools that do what these do."""
LOOKED_UP = re.compile(rf"{FILED.pattern}|\bnotes?\b|\bsearch|\bfind|look ?up|\bread\b", re.IGNORECASE)
"""Words of requests that files or tables might serve."""
COUNTED = re.compile(r"calc|comput|evaluat|convert|how (much|many|long|far|fast|high|old)|\d", re.IGNORECASE)
"""Words of requests that a calculator or converter might serve."""
RECKONERS = {"maths", "geometry", "physics", "finance", "science", "health"}

UNSERVED = tuple(
    "Order a pizza for tonight.|Call my mother.|Play some music.|Turn the heating down.|Book me a taxi.|Sweep the stairs.|Iron my shirt.|Remind me to stretch.|Buy two tickets for the opera.|Sing me a song.|Juggle for me.|Draw a cat.|Cook dinner.|Lock the front door.|Feed the dog.|Who won the match yesterday?|Is it going to snow?|What's the news?|Reserve a seat on the train.|Text Maria that I'm late.|Post this picture.|Open the garage.|Pay the rent.|What should I wear?|Start the dishwasher.|Walk the dog.|Recommend a good movie.|Find me a girlfriend.|Fix my bike.|Which river is the longest?|Who painted the Mona Lisa?|Write me a love letter.|How do I boil an egg?|Where did I leave my keys?|Make me a coffee.|Close the blinds.|Mow the lawn.|Charge my car.|Cancel my subscription.|Is the bakery open?|Ring the doorbell.|What's the meaning of life?|How tall is Mount Fuji?|Rate my haircut.|Schedule a dentist visit.|Add candles to the shopping list.|Take a photo.|Mute the TV..".split(
        "|"
    )
)


@dataclass(frozen=True)
class Shelf:
    """One to four tools of a desk and the world they show."""

    world: worlds.World
    roles: list[str]
    specs: list[dict[str, Any]]

    @classmethod
    def drawn(cls, rng: random.Random, kinds: Kinds) -> Shelf:
        world = worlds.make_world(rng, kinds)
        roles = rng.sample(["list", "read", "search", "query"], rng.choice([1, 2, 2, 2, 3, 4]))
        if len(roles) < 4 and rng.random() < 0.3:
            roles.append(rng.choice(["compute", "convert"]))
        rng.shuffle(roles)
        return cls(world, roles, worlds.tool_specs(rng, world, roles))

    @property
    def reckons(self) -> bool:
        return "compute" in self.roles or "convert" in self.roles

    def apart(self, tool: Tool) -> bool:
        """Whether no request for the tool could be meant for one of these."""
        if tool.name in self.world.names.values() or FILED.search(f"{tool.topic} {tool.about}"):
            return False
        if not self.reckons:
            return True
        known = tool.sketch is not None and tool.sketch.domain not in RECKONERS
        return known and not COUNTED.search(tool.about)

    def serves(self, request: str) -> bool:
        """Whether one of these might serve the request."""
        return bool(LOOKED_UP.search(request) or (self.reckons and COUNTED.search(request)))

    def plain_request(self, rng: random.Random) -> tuple[str, Call]:
        """A request for one call of one of these, as bluntly as people type it."""
        role = rng.choice(self.roles)
        world, split = self.world, self.world.kinds.split
        if role in ("compute", "convert"):
            return self._reckoned(rng, role)
        if role == "query":
            return self._queried(rng)
        asked = pick(rng, tuple(ASKS[role].split("|")), split)
        if role == "list":
            return asked, world.call("list")
        if role == "read":
            file = rng.choice(sorted(world.files))
            if not world.enumerated and "list" in self.roles and rng.random() < 0.4:
                file = f"{world.kinds.pools.noun(rng).split()[0].lower()}.{rng.choice(['txt', 'md', 'log', 'csv'])}"
            return asked.format(f=file), world.call("read", file=file)
        pools = world.kinds.pools
        fact = rng.choice(world.facts) if world.facts else None
        text = rng.choice([fact.obj if fact else "", pools.noun(rng), pools.noun(rng)]) or pools.noun(rng)
        mark = rng.choice(["", "", "'", '"'])
        return asked.format(t=f"{mark}{text}{mark}"), world.call("search", text=text)

    def _queried(self, rng: random.Random) -> tuple[str, Call]:
        world, split = self.world, self.world.kinds.split
        table = rng.choice(world.tables)
        column = rng.choice(list(table.columns))
        options = (
            (_ROWS, f"SELECT * FROM {table.name}"),
            (_COUNT, f"SELECT COUNT(*) FROM {table.name}"),
            (_COLUMN, f"SELECT {column} FROM {table.name}"),
        )
        asks, sql = rng.choice(options)
        if rng.random() < 0.2:
            asks = _RUN
        return pick(rng, tuple(asks.split("|")), split).format(t=table.name, c=column, q=sql), world.call(
            "query", sql=sql
        )

    def _reckoned(self, rng: random.Random, role: str) -> tuple[str, Call]:
        make = compute_chain if role == "compute" else convert_chain
        chain: Chain | None = None
        while chain is None or len(chain.calls) != 1:
            chain = make(rng, self.world, [role])
        return chain.question, chain.calls[0]


def unserved(rng: random.Random, shelf: Shelf, given: list[Tool]) -> str:
    """An everyday request that none of the tools serves; empty where chance finds none."""
    known = set(re.findall("[a-z]{4,}", " ".join(f"{t.topic} {t.name} {t.about}" for t in given).lower()))
    request = pick(rng, UNSERVED, shelf.world.kinds.split)
    if shelf.serves(request) or known & set(re.findall("[a-z]{4,}", request.lower())):
        return ""
    return request
