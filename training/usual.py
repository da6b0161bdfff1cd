# ruff: noqa: E501, SIM905 -- sentences are data: one list a line reads better than wrapped ones
"""The tools that most agents are given: search the web, run a command, read and write files, fetch a page, compute.

What is asked of them is the plainest there is, and what they bring is read: settings, pages, snippets.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from training.naming import Split, in_split, pick, rename, uncapital, words
from training.pools import Pools
from training.replies import done, found
from training.tools import Call

# role: names; descriptions; parameters: names, description, JSON type, whether it is required
ROLES: dict[str, tuple[str, str, tuple[tuple[str, str, str, str, bool], ...]]] = {
    "search": (
        "search_web web_search google_search search internet_search searchWeb search_internet duckduckgo_search web.search",
        "Search the web.|Search the internet and return titles and snippets.|Find pages about anything.|Web search. Use it for facts you do not know.|Looks something up on the internet.",
        (
            (
                "query",
                "query q search_query term search_term",
                "What to search for.|The search query.|Words to look for.||",
                "string",
                True,
            ),
            (
                "count",
                "max_results num_results limit count top_k n",
                "At most so many results.|How many results.|Number of results to return.|",
                "integer",
                False,
            ),
        ),
    ),
    "shell": (
        "run_shell bash shell run_command execute_command terminal exec runShell shell.run",
        "Run a shell command and return its output.|Executes a command in bash.|Run a command line on a Linux machine.|Shell access. Output is returned as text.",
        (
            (
                "command",
                "command cmd command_line script",
                "The command to run.|A shell command.|",
                "string",
                True,
            ),
        ),
    ),
    "read": (
        "read_file open_file file_read readFile get_file_contents load_file view_file cat",
        "Read a text file.|Return the contents of a file.|Opens a file and gives back its text.|Reads one file of the workspace.",
        (("path", "path file file_path filename name", "Path of the file.|Which file.|", "string", True),),
    ),
    "write": (
        "write_file create_file save_file writeFile file_write write put_file",
        "Write text to a file.|Create a file with the given content, or replace it.|Saves text under a path.|Writes a file.",
        (
            (
                "path",
                "path file file_path filename name",
                "Path of the file.|Where to write.|",
                "string",
                True,
            ),
            ("content", "content text contents data body", "What to write.|The whole text.|", "string", True),
        ),
    ),
    "append": (
        "append_file append_to_file add_line file_append appendFile",
        "Add a line at the end of a file.|Append text to a file.|Adds text behind what a file has.",
        (
            ("path", "path file file_path filename", "Path of the file.|Which file.|", "string", True),
            ("content", "text line content", "What to add.|The line.|", "string", True),
        ),
    ),
    "ls": (
        "list_directory list_files ls listFiles list_dir dir get_files",
        "List the files of a directory.|Names of the files in a folder.|Shows what a directory holds.",
        (
            (
                "folder",
                "path directory folder dir",
                "The directory; the current one if left out.|Which folder.|",
                "string",
                False,
            ),
        ),
    ),
    "delete": (
        "delete_file remove_file deleteFile rm unlink file_delete",
        "Delete a file.|Removes a file for good.|Deletes one file.",
        (("path", "path file file_path filename", "Path of the file.|Which file.|", "string", True),),
    ),
    "move": (
        "move_file rename_file moveFile mv rename",
        "Move or rename a file.|Gives a file another name or place.",
        (
            ("path", "source src from_path old_path path", "The file.|Path it has now.|", "string", True),
            (
                "to",
                "destination dest to_path new_path target",
                "Its new path.|Where it goes.|",
                "string",
                True,
            ),
        ),
    ),
    "grep": (
        "search_files grep find_in_files searchFiles search_text file_search",
        "Find lines with a text in all files.|Search the files of the workspace for a text.|Lines that contain a pattern.",
        (("pattern", "pattern text query needle", "The text to find.|What to look for.|", "string", True),),
    ),
    "fetch": (
        "fetch_url http_get get_page fetch open_url fetchUrl browse read_webpage",
        "Fetch a web page and return its text.|Download a page.|HTTP GET.|Reads a page of the web.",
        (("url", "url address link uri page_url", "Address of the page.|The URL.|", "string", True),),
    ),
    "python": (
        "run_python python execute_python python_repl runPython exec_code code_interpreter",
        "Run Python code and return what it prints.|Executes a snippet of Python.|A Python interpreter.",
        (("code", "code source snippet script", "The code.|What to run.|", "string", True),),
    ),
    "calc": (
        "calculator calculate calc evaluate math compute eval_expression",
        "Evaluate an arithmetic expression.|Works out a formula.|A calculator for + - * / and brackets.",
        (
            (
                "expression",
                "expression expr formula input",
                "The expression.|A formula like 2 * (3 + 4).|",
                "string",
                True,
            ),
        ),
    ),
}

ASKS = {
    "search": "Search for {t}|Search the web for {t}|google {t}|Look up {t} online|Find something about {t}|Find pages about {t}|What does the internet say about {t}?|I need information on {t}|Look {t} up on the web|search {t}|Do a web search for {t}|Can you find articles on {t}?|Find me sites about {t}|web search: {t}|Please look for {t} on the internet|See what you can find about {t}",
    "question": "{q}?|{q}?|{q}?|{q}?|{q}|Find out: {q}?|Look it up: {q}?|Can you tell me: {q}?|Search the web: {q}?|I wonder: {q}?|Please find out online: {q}?|Do you know? {q}?",
    "read": "read {f}|Read {f}, please.|open {f}|Show me {f}|show {f}|What does {f} say?|what's in {f}?|print {f}|Can you open {f}?|Let me see {f}|Display the file {f}.|I want to see {f}|Give me the contents of {f}.|View {f}",
    "write": 'Create a file {f} that says {t}|Write "{t}" to {f}|Save "{t}" in {f}|Make a file called {f} with the text "{t}"|create {f} with the content {t}|Put "{t}" into {f}|Write a new file {f}: {t}|Please store the text "{t}" as {f}|I need a file {f} containing "{t}"|New file {f} with "{t}" in it, please',
    "append": 'Append "{t}" to {f}|Add the line "{t}" to {f}|Add "{t}" at the end of {f}|Write "{t}" at the bottom of {f}|put another line in {f}: {t}|In {f}, add "{t}"',
    "ls": "List the files in {d}|What's in the folder {d}?|Which files does {d} have?|Show me the directory {d}|ls {d}|What files are there in {d}?|Show the contents of the folder {d}|List {d}",
    "ls here": "List the files|What files are there?|List the files in the current directory.|ls|Show me the files here|Which files do we have?|What is in this folder?|Show the current folder|list files|What's in here?",
    "delete": "Delete {f}|delete the file {f}|Remove {f}|Please get rid of {f}|rm {f}|Throw {f} away|I don't need {f} any more, delete it.|erase {f}",
    "move": "Rename {f} to {g}|Move {f} to {g}|mv {f} {g}|Give {f} the name {g}|{f} should be called {g}|Please move the file {f} to {g}|Change the name of {f} to {g}",
    "grep": 'Find "{t}" in the files|Where do we use "{t}"?|Search the files for "{t}"|grep "{t}"|Which file mentions "{t}"?|Which lines contain "{t}"?|Look for "{t}" in the code|Where does "{t}" occur?',
    "fetch": "Open {u}|fetch {u}|What does {u} say?|Get the page {u}|Read {u} for me|Show me {u}|What's on {u}?|Download {u}|Have a look at {u}|Summarize {u}|Please read the page {u}",
    "python": "Run this: {c}|Run {c} in Python|What does {c} print?|Execute {c}|python: {c}|Please run the Python code {c}|Evaluate {c} in Python",
}
# what is asked of a shell ~ the command
SHELL = """
List the files|list files|What files are here?|Show me the files in this folder|Which files are in the current directory?|ls|What is in this directory? ~ ls
List the files in {d}|What's in {d}?|Show the folder {d}|Which files are there in {d}?|Show me what {d} holds ~ ls {d}
List all files, hidden ones too|Show the hidden files as well|Which hidden files are here?|list everything including dotfiles ~ ls -a
List the files with their sizes|Show file sizes and dates|a long listing, please|How large are the files here? ~ ls -l
Where am I?|Which directory are we in?|What's the current directory?|Show the working directory|pwd|print the path of this folder ~ pwd
What's the date?|What time is it on the machine?|Which day is today?|Show date and time|Tell me today's date ~ date
Who am I logged in as?|Which user is this?|What's my user name?|whoami ~ whoami
How much disk space is left?|Is the disk full?|Show the disk usage|How much room is on the disks? ~ df -h
How large is {d}?|How much space does the folder {d} take?|What is the size of the directory {d}? ~ du -sh {d}
How much memory is free?|Show the memory usage|Is there enough RAM left? ~ free -h
Which processes are running?|Show all processes|list the processes ~ ps aux
How long has the machine been up?|What's the load?|Show the uptime ~ uptime
Kill process {n}|Stop the process with number {n}|End process {n}|kill {n} ~ kill {n}
Show {f}|Print {f}|What's in {f}?|cat {f}|Show me the file {f}|What does {f} say? ~ cat {f}
Show the first {k} lines of {f}|The top {k} lines of {f}, please|Print the first {k} lines of {f}|How does {f} begin? Show {k} lines. ~ head -n {k} {f}
Show the last {k} lines of {f}|The last {k} lines of {f}|What are the last {k} lines in {f}?|Print the final {k} lines of {f} ~ tail -n {k} {f}
How many lines does {f} have?|Count the lines of {f}|Number of lines in {f}?|How long is {f} in lines? ~ wc -l {f}
Find "{w}" in {f}|Which lines of {f} contain {w}?|grep {w} in {f}|Search {f} for {w}|Where does {f} mention {w}? ~ grep {w} {f}
Which files mention {w}?|Search all files for {w}|Find {w} anywhere in this folder|Where is {w} used in the code? ~ grep -r {w} .
Make a directory {d}|Create the folder {d}|mkdir {d}|I need a new folder called {d}|New directory {d}, please ~ mkdir {d}
Delete {f}|Remove the file {f}|rm {f}|Get rid of {f}|Throw {f} away ~ rm {f}
Delete the folder {d}|Remove the directory {d} and all that is in it|Get rid of the whole folder {d} ~ rm -r {d}
Copy {f} to {g}|Make a copy of {f} called {g}|cp {f} {g}|Duplicate {f} as {g} ~ cp {f} {g}
Rename {f} to {g}|Move {f} to {g}|mv {f} {g}|Give {f} the name {g} ~ mv {f} {g}
Create an empty file {f}|Make an empty {f}|touch {f} ~ touch {f}
Make {f} executable|Allow {f} to be run|chmod +x for {f} ~ chmod +x {f}
Unzip {z}|Unpack {z}|Extract {z} here|Open the archive {z} ~ unzip {z}
Install {p}|Install the Python package {p}|pip install {p}|We need {p}, install it ~ pip install {p}
Install the npm package {p}|npm install {p}|Add {p} with npm ~ npm install {p}
Run the tests|Run all tests|Do the tests pass?|Start the test suite|pytest ~ pytest
Run the tests in {y}|Test {y}|Do the tests of {y} pass?|pytest {y} ~ pytest {y}
Run {y}|Start the script {y}|Execute {y}|Run the Python file {y}|python {y} ~ python {y}
Which Python version is installed?|What version of Python do we have?|Show the Python version ~ python --version
What changed in the repository?|git status|Which files are modified?|Is anything uncommitted? ~ git status
Show the diff|What are the changes?|git diff|Show what has changed line by line ~ git diff
Show the last {k} commits|The latest {k} commits, please|git log, {k} entries|What were the last {k} commits? ~ git log -n {k}
Pull the latest changes|git pull|Update the repository|Get the newest version from the remote ~ git pull
Push my commits|git push|Push to the remote ~ git push
Create a branch {b}|Make a new branch called {b}|New branch {b}, please|Start a branch named {b} ~ git checkout -b {b}
Switch to the branch {b}|Check out {b}|Go to branch {b}|git checkout {b} ~ git checkout {b}
Commit with the message "{t}"|Commit everything as "{t}"|git commit, message "{t}" ~ git commit -am "{t}"
Clone {u}|git clone {u}|Get a copy of the repository {u} ~ git clone {u}
Download {u}|Fetch {u} with curl|curl {u} ~ curl -O {u}
Ping {h}|Is {h} reachable?|Can you reach {h}?|See whether {h} answers ~ ping -c 1 {h}
What is the address of {h}?|Look up the IP of {h}|Resolve {h} ~ dig +short {h}
What is the variable {v} set to?|Print the environment variable {v}|Show {v} ~ echo ${v}
Which ports are in use?|What is listening on this machine?|Show open ports ~ ss -tln
Run `{x}`|Run the command {x}|Execute `{x}`|Please run {x}|{x}|Do a {x} ~ {x}
"""
COMMANDS = "make|make test|npm test|npm run build|npm start|cargo build|cargo test|go test ./...|docker ps|docker compose up -d|kubectl get pods|ls -la /tmp|git stash|git log --oneline|nvidia-smi|top -b -n 1|uname -a|hostname|env|crontab -l|systemctl status nginx|tar -xzf backup.tar.gz|ruff check .|mypy src|black .|terraform plan|helm list|yarn build|cat /etc/os-release|journalctl -n 50"
# a question ~ a sentence that answers it; {X} any noun as a name, {p} a person, {c} a city, {l} a country, {f} a firm, {T} a title, {n} {y} numbers
FACTS = """
How high is {M}|How tall is {M} ~ {M} is {n} m high.
How long is the river {R}|What is the length of the {R} ~ The {R} is {n} km long.
Who wrote {T}|Which author wrote {T} ~ {T} was written by {p}.
Who painted {T}|Which painter made {T} ~ {T} was painted by {p} in {y}.
Who directed {T}|Who is the director of {T} ~ {T} was directed by {p}.
When was {f} founded|In which year was {f} founded|How old is the company {f} ~ {f} was founded in {y}.
Who founded {f}|Who started {f} ~ {f} was founded by {p}.
Who is the CEO of {f}|Who runs {f} ~ The CEO of {f} is {p}.
Where are the headquarters of {f}|Where is {f} based ~ {f} is based in {c}.
How many people work at {f}|How many employees does {f} have ~ {f} has {n} employees.
What is the capital of {l}|Which city is the capital of {l} ~ The capital of {l} is {c}.
How many people live in {c}|What is the population of {c} ~ {c} has {n} inhabitants.
Who is the president of {l}|Who governs {l} ~ The president of {l} is {p}.
Which currency is used in {l}|What is the currency of {l} ~ The currency of {l} is the {x}.
Who is {p}|What is {p} known for ~ {p} is known for the {x}.
When was {p} born|In what year was {p} born ~ {p} was born in {y}.
How old is {p}|What age is {p} ~ {p} is {k} years old.
Where was {p} born|Which city does {p} come from ~ {p} was born in {c}.
Who invented the {x}|Who made the first {x} ~ The {x} was invented by {p}.
When was the {x} invented|How old is the {x} ~ The {x} was invented in {y}.
What is a {x}|What does {x} mean ~ A {x} is a kind of {z}.
What does a {x} cost|How much is a {x} ~ A {x} costs about {n} dollars.
How heavy is a {x}|What does a {x} weigh ~ A {x} weighs {n} kg.
How do you clean a {x}|What is the best way to clean a {x} ~ A {x} is best cleaned with a {z}.
What is the latest version of {f}|Which version of {f} is the newest ~ The latest version of {f} is {v}.
Who won the {x} cup in {y}|Which team won the {x} cup of {y} ~ The {x} cup of {y} was won by {c}.
When does the {x} in {c} open|What are the opening hours of the {x} in {c} ~ The {x} in {c} opens at {h}.
How far is {c} from {C}|What is the distance between {c} and {C} ~ {c} is {n} km from {C}.
What is the news about {f}|What's new at {f} ~ {f} has opened a new {x} in {c}.
Is {f} in {c} any good|What do people say about {f} in {c} ~ {f} in {c} is rated {k} of 100.
"""
KEYS = "version license author port host timeout language email owner maintainer theme region database user log_level max_users interval currency release_date name title color debug retries cache_size base_url branch model".split()
STEMS = "notes todo config main app index report data test utils log setup README budget letter plan server users results summary draft list script backup".split()
FOLDERS = "src docs tests data build lib bin assets images config scripts logs public static".split()
PACKAGES = "requests numpy pandas flask express lodash react torch".split()
VARIABLES = "PATH HOME USER API_KEY LANG EDITOR PORT DEBUG".split()


def _table(text: str) -> list[tuple[list[str], str]]:
    pairs = (line.split(" ~ ") for line in text.strip().splitlines())
    return [(asked.split("|"), told) for asked, told in pairs]


_SHELL, _FACTS = _table(SHELL), _table(FACTS)
_ASKS = {kind: tuple(wordings.split("|")) for kind, wordings in ASKS.items()}
_COMMANDS = COMMANDS.split("|")
_COMMAND_OF = {"read": "cat", "ls": "ls", "delete": "rm ", "move": "mv", "grep": "grep", "fetch": "curl"}
"""What a shell is not asked for beside a tool of its own."""


def _word(text: str) -> str:
    """As a name of a file or an identifier."""
    return "".join(c if c.isalnum() else "_" for c in text)


@dataclass
class Step:
    """What is asked, its call, what it brings, and how that is passed on."""

    request: str
    call: Call
    result: str
    answer: str
    values: tuple[str, ...] = ()


class Bench:
    """One agent's usual tools, drawn once, and requests for them."""

    def __init__(self, rng: random.Random, pools: Pools, split: Split) -> None:
        self.pools, self.split = pools, split
        wanted = rng.choice(
            [
                ["search", "calc"],
                ["search"],
                ["search", "fetch"],
                ["shell"],
                ["shell", "read", "write"],
                ["read", "write", "ls"],
                ["read", "write", "append", "ls", "delete"],
                ["search", "calc", "read", "write", "shell"],
                ["search", "python"],
                ["read", "grep", "ls"],
                ["shell", "python", "search"],
                rng.sample(list(ROLES), rng.randint(2, 6)),
                rng.sample(list(ROLES), rng.randint(3, 8)),
            ]
        )
        self.roles = rng.sample(wanted, len(wanted))
        self.names: dict[str, str] = {}
        self.params: dict[str, dict[str, str]] = {}
        self.specs: list[dict[str, Any]] = []
        for role in self.roles:
            names, abouts, params = ROLES[role]
            self.names[role] = self._named(rng, names, self.names.values())
            self.params[role] = {}
            properties: dict[str, Any] = {}
            required = []
            for slot, called, about, kind, must in params:
                if not must and rng.random() < 0.4:
                    continue
                name = self._named(rng, called, properties)
                self.params[role][slot] = name
                told = rng.choice(about.split("|"))
                properties[name] = {"type": kind, **({"description": told} if told else {})}
                if must:
                    required.append(name)
            schema = {
                "type": "object",
                "properties": properties,
                **({"required": required} if required else {}),
            }
            self.specs.append(
                {"name": self.names[role], "description": rng.choice(abouts.split("|")), "parameters": schema}
            )

    def _named(self, rng: random.Random, names: str, taken: Iterable[str]) -> str:
        """One of the names, or where none belongs to this split a variant of one."""
        free = [n for n in names.split() if n not in taken]
        own = [n for n in free if in_split(n, self.split)]
        return rng.choice(own) if own else rename(rng, rng.choice(free), self.split)

    def step(self, rng: random.Random) -> Step:
        role = rng.choice([*self.roles, *(r for r in self.roles if r in ("search", "shell", "read"))])
        if role in ("write", "append", "delete", "move"):
            return self._change(rng, role)
        makers: dict[str, Callable[[random.Random], Step]] = {
            "search": self._search,
            "shell": self._shell,
            "read": self._read,
            "fetch": self._fetch,
            "ls": self._ls,
            "calc": self._calc,
            "python": self._python,
            "grep": self._grep,
        }
        return makers[role](rng)

    def question(self, rng: random.Random) -> str:
        """What only the web could tell."""
        return pick(rng, rng.choice(_FACTS)[0], self.split).format(**self._values(rng)) + "?"

    @property
    def searches(self) -> bool:
        return "search" in self.roles

    # ── what is asked about ──

    def _values(self, rng: random.Random) -> dict[str, str]:
        pools = self.pools
        noun = pools.noun(rng)
        return {
            "M": f"{rng.choice(['Mount', 'Pico', 'Monte', 'Mount'])} {pools.value(rng, 'last').capitalize()}",
            "R": pools.value(rng, "last").capitalize(),
            "T": self._title(rng),
            "p": pools.value(rng, "person"),
            "c": pools.value(rng, "city"),
            "C": pools.value(rng, "city"),
            "l": pools.value(rng, "country"),
            "f": pools.value(rng, "company"),
            "x": noun,
            "z": pools.noun(rng),
            "n": f"{rng.randint(2, 9000)}",
            "k": str(rng.randint(3, 99)),
            "y": str(rng.randint(1650, 2026)),
            "v": f"{rng.randint(0, 20)}.{rng.randint(0, 30)}",
            "h": f"{rng.randint(6, 12)}:{rng.choice(['00', '30'])}",
        }

    def _title(self, rng: random.Random) -> str:
        a, b = self.pools.adjective(rng).title(), self.pools.noun(rng).title()
        return rng.choice([f"The {a} {b}", f"{b}", f"The {b} of {self.pools.noun(rng).title()}", f"{a} {b}"])

    def _stem(self, rng: random.Random) -> str:
        if rng.random() < 0.5:
            return rng.choice(STEMS)
        noun = _word(self.pools.noun(rng)).strip("_") or "page"
        return rng.choice(
            [noun, f"{rng.choice(STEMS)}_{noun}", f"{noun}-{rng.randint(1, 40)}", noun.capitalize()]
        )

    def _file(
        self, rng: random.Random, ends: str = "txt txt md md py json yaml csv log html toml js cfg env sql"
    ) -> str:
        where = self._folder(rng) + "/" if rng.random() < 0.25 else ""
        return f"{where}{self._stem(rng)}.{rng.choice(ends.split())}"

    def _folder(self, rng: random.Random) -> str:
        first = rng.choice(FOLDERS)
        if rng.random() < 0.3:
            first = _word(self.pools.noun(rng))
        return first + (f"/{self._stem(rng).lower()}" if rng.random() < 0.25 else "")

    def _url(self, rng: random.Random) -> str:
        name = "".join(c for c in self.pools.value(rng, "last").lower() if "a" <= c <= "z") or "example"
        host = f"{name}{rng.choice(['', '-' + rng.choice(['shop', 'blog', 'news', 'lab'])])}.{rng.choice(['com', 'org', 'net', 'io', 'de', 'dev'])}"
        return f"https://{rng.choice(['', 'www.'])}{host}" + rng.choice(
            [
                "",
                "/",
                f"/{self._stem(rng).lower()}",
                f"/{self._stem(rng).lower()}.html",
                f"/{rng.choice(['blog', 'docs'])}/{rng.randint(1, 99)}",
            ]
        )

    def _text(self, rng: random.Random) -> str:
        said = [
            s for s in (rng.choice(self.pools.sentences) for _ in range(4)) if len(s) < 60 and '"' not in s
        ]
        short = [
            f"{self.pools.adjective(rng)} {self.pools.noun(rng)}",
            "hello world",
            f"buy {self.pools.noun(rng)}s",
            f"TODO: fix the {self.pools.noun(rng)}",
        ]
        return rng.choice([*said[:1], *short]).rstrip(".")

    # ── one role each ──

    def _asked(self, rng: random.Random, kind: str) -> str:
        return pick(rng, _ASKS[kind], self.split)

    def _call(self, role: str, **values: Any) -> Call:
        return self.names[role], {
            self.params[role][k]: v for k, v in values.items() if k in self.params[role]
        }

    def _search(self, rng: random.Random) -> Step:
        if rng.random() < 0.65:
            asked, fact = rng.choice(_FACTS)
            values = self._values(rng)
            query = pick(rng, asked, self.split).format(**values)
            request = self._asked(rng, "question").format(q=query)
            snippets = [fact.format(**values)]
            for other, more in rng.sample(_FACTS, rng.choice([0, 1, 1, 2])):
                if other is not asked:
                    snippets.append(more.format(**{**self._values(rng), **{k: values[k] for k in "pf"}}))
            answer = snippets[0]
            if rng.random() < 0.35:
                rng.shuffle(snippets)
        else:
            query = (
                self.pools.topic(rng)
                if rng.random() < 0.6
                else f"{self.pools.topic(rng)} {rng.choice(['in', 'near', 'from'])} {self.pools.value(rng, 'city')}"
            )
            request = self._asked(rng, "search").format(t=query)
            snippets = [rng.choice(self.pools.sentences) for _ in range(rng.randint(1, 3))]
            answer = ""
        wanted: dict[str, Any] = {"query": query}
        if "count" in self.params["search"] and rng.random() < 0.4:
            n = rng.randint(1, 20)
            said = rng.choice(
                [
                    f"just {n} results",
                    f"{n} results are enough",
                    f"at most {n} results",
                    f"the top {n}",
                    f"no more than {n} hits",
                    f"give me {n} results",
                ]
            )
            request = (
                f"{request.rstrip('.')}, {said}" if request[-1] != "?" else f"{request} {said.capitalize()}."
            )
            wanted["count"] = n
        titles = [self._title(rng) for _ in snippets]
        rows = [
            {"title": t, **({"url": self._url(rng)} if rng.random() < 0.3 else {}), "snippet": s}
            for t, s in zip(titles, snippets, strict=True)
        ]
        result = rng.choice(
            [
                json.dumps(rows, ensure_ascii=False),
                json.dumps({"results": rows}, ensure_ascii=False),
                "\n".join(f"{r['title']}: {r['snippet']}" for r in rows),
                " ".join(snippets),
            ]
        )
        if not answer:
            answer = snippets[0] if len(snippets) == 1 or titles[0] not in result else found(titles)
        return Step(request, self._call("search", **wanted), result, answer)

    def _shell(self, rng: random.Random) -> Step:
        while True:
            asked, command = rng.choice(_SHELL)
            if not any(r in self.roles and command.startswith(c) for r, c in _COMMAND_OF.items()):
                break
        values = {
            "d": self._folder(rng),
            "f": self._file(rng),
            "g": self._file(rng),
            "y": self._file(rng, "py"),
            "z": self._file(rng, "zip"),
            "n": str(rng.randint(100, 60000)),
            "k": str(rng.randint(2, 60)),
            "u": self._url(rng),
            "t": self._text(rng).replace("'", ""),
            "w": _word(self.pools.noun(rng)),
            "b": self._stem(rng).lower().replace("_", "-"),
            "p": rng.choice([*PACKAGES, self._stem(rng).lower()]),
            "h": self._url(rng).split("/")[2],
            "v": rng.choice(VARIABLES),
            "x": rng.choice(_COMMANDS),
        }
        request = pick(rng, asked, self.split).format(**values)
        command = command.format(**values)
        if command.startswith("ls"):
            return Step(request, self._call("shell", command=command), *self._names(rng))
        lines = [
            rng.choice(
                [self._file(rng), str(rng.randint(0, 9999)), self._text(rng), self.pools.identifier(rng)]
            )
            for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))
        ]
        result = "\n".join(lines) or rng.choice(["", "(no output)", "ok", "exit code 0"])
        answer = f"It printed: {', '.join(lines)}." if lines else "Done."
        return Step(request, self._call("shell", command=command), result, answer)

    def _names(self, rng: random.Random) -> tuple[str, str]:
        names = list(
            dict.fromkeys(
                self._file(rng) if rng.random() < 0.8 else self._folder(rng) for _ in range(rng.randint(1, 5))
            )
        )
        result = rng.choice(["\n".join(names), json.dumps(names), ", ".join(names)])
        return result, found(names)

    def _ls(self, rng: random.Random) -> Step:
        folder = self._folder(rng) if "folder" in self.params["ls"] and rng.random() < 0.6 else None
        kind = "ls here" if folder is None else "ls"
        request = self._asked(rng, kind).format(d=folder)
        call = self._call("ls", **({} if folder is None else {"folder": folder}))
        return Step(request, call, *self._names(rng))

    def _read(self, rng: random.Random) -> Step:
        path = self._file(rng)
        call = self._call("read", path=path)
        if rng.random() < 0.35:
            text = " ".join(rng.choice(self.pools.sentences) for _ in range(rng.choice([1, 1, 2])))
            return Step(self._asked(rng, "read").format(f=path), call, text, text)
        settings = {k: self._setting(rng, k) for k in rng.sample(KEYS, rng.randint(1, 6))}
        key = rng.choice(list(settings))
        k, value = words(key), settings[key]
        asks = [
            f"What is the {k} in {path}?",
            f"Which {k} does {path} have?",
            f"What {k} does {path} set?",
            f"Look into {path}: what is the {k}?",
            f"Tell me the {k} from {path}.",
            f"According to {path}, what is the {k}?",
            f"I need the {k}. It's in {path}.",
            f"What's the {k}? It stands in {path}",
            f"check the {k} in {path}",
            f"What does {path} say about the {k}?",
            f"Read {path} and tell me the {k}.",
            f"{k} in {path}?",
            f"What {k} does {path} mention?",
            f"Which {k} is given in {path}?",
            f"What is the {k}? See {path}.",
            f"Find the {k} in {path}.",
            f"How is the {k} set in {path}?",
            f"Does {path} name the {k}? Which is it?",
        ]
        request = pick(rng, asks, self.split)
        if rng.random() < 0.12:
            del settings[key]
            settings = settings or {"active": "true"}
            return Step(request, call, self._written(rng, settings), f"{path} does not say.")
        return Step(request, call, self._written(rng, settings), f"The {k} is {value}.", (value,))

    def _setting(self, rng: random.Random, key: str) -> str:
        if key == "version":
            return f"{rng.randint(0, 9)}.{rng.randint(0, 30)}.{rng.randint(0, 20)}"
        if key == "license":
            return rng.choice(["MIT", "Apache-2.0", "GPL-3.0", "BSD-3-Clause", "MPL-2.0", "ISC"])
        if key in ("author", "owner", "maintainer"):
            return self.pools.value(rng, "person")
        if key in ("port", "timeout", "max_users", "interval", "retries", "cache_size"):
            return str(rng.choice([rng.randint(1, 90), rng.randint(100, 9000)]))
        if key == "release_date":
            return f"{rng.randint(2015, 2027)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        if key in ("host", "base_url"):
            return self._url(rng)
        if key == "email":
            return f"{self._stem(rng).lower()}@{self._url(rng).split('/')[2]}"
        if key == "debug":
            return rng.choice(["true", "false"])
        return rng.choice([self.pools.noun(rng), self.pools.identifier(rng), self.pools.value(rng, "city")])

    def _written(self, rng: random.Random, settings: dict[str, str]) -> str:
        """Settings as files hold them, or as a README says them."""
        lines: Sequence[str]
        look = rng.randrange(7)
        if look == 0:
            return json.dumps(settings, ensure_ascii=False)
        if look == 1:
            lines = [f"{k} = {v}" for k, v in settings.items()]
        elif look == 2:
            lines = [f"{k.upper()}={v}" for k, v in settings.items()]
        elif look == 3:
            lines = [f"- {words(k).capitalize()}: {v}" for k, v in settings.items()]
        elif look == 4:
            lines = [f"The {words(k)} is {v}." for k, v in settings.items()]
            return f"# {self._title(rng)}\n{' '.join(lines)}"
        elif look == 5:
            told = ", ".join(f"{words(k)} {v}" for k, v in settings.items())
            return f"# {self._title(rng)}\n{rng.choice(self.pools.sentences)} {told[:1].upper()}{told[1:]}."
        else:
            lines = [f"{k}: {v}" for k, v in settings.items()]
        head = rng.choice(["", "", f"# {self._title(rng)}\n", f"[{self._stem(rng).lower()}]\n"])
        return head + "\n".join(lines)

    def _change(self, rng: random.Random, role: str) -> Step:
        """Write, append, delete, move."""
        path, other, text = self._file(rng), self._file(rng), self._text(rng)
        request = self._asked(rng, role).format(f=path, g=other, t=text)
        call = self._call(role, path=path, content=text, to=other)
        result = rng.choice(
            ["ok", "done", f"wrote {len(text)} bytes", "saved", json.dumps({"success": True}), f"{path}: ok"]
        )
        if role in ("delete", "move"):
            result = rng.choice(
                ["ok", "done", "deleted" if role == "delete" else "moved", json.dumps({"success": True})]
            )
        plain = result in ("ok", "done", f"{path}: ok") or result[0] == "{"
        return Step(request, call, result, done("" if plain else result))

    def _grep(self, rng: random.Random) -> Step:
        text = self.pools.topic(rng)
        request = self._asked(rng, "grep").format(t=text)
        lines = [f"{self._file(rng)}:{rng.randint(1, 400)}: {text}" for _ in range(rng.choice([0, 1, 2, 3]))]
        answer = found(lines) if lines else f"No file has {text}."
        return Step(
            request,
            self._call("grep", pattern=text),
            "\n".join(lines) or rng.choice(["", "no matches"]),
            answer,
        )

    def _fetch(self, rng: random.Random) -> Step:
        url = self._url(rng)
        request = self._asked(rng, "fetch").format(u=url)
        text = rng.choice(self.pools.sentences)
        return Step(
            request, self._call("fetch", url=url), rng.choice([text, f"{self._title(rng)}\n{text}"]), text
        )

    def _python(self, rng: random.Random) -> Step:
        a, b = rng.randint(2, 99), rng.randint(2, 99)
        word = self.pools.noun(rng)
        code, value = rng.choice(
            [
                (f"print({a} * {b})", str(a * b)),
                (f"print(len('{word}'))", str(len(word))),
                (f"print(sum(range({a})))", str(sum(range(a)))),
                (f"print({a} ** 2)", str(a**2)),
                (f"print('{word}'.upper())", word.upper()),
            ]
        )
        request = self._asked(rng, "python").format(c=code)
        return Step(request, self._call("python", code=code), value, f"It printed: {value}.", (value,))

    def _calc(self, rng: random.Random) -> Step:
        a, b, c = (
            rng.choice([rng.randint(2, 99), rng.randint(100, 5000), round(rng.uniform(1, 99), 2)])
            for _ in range(3)
        )
        asked, formula = rng.choice(
            [
                (
                    f"What is {a} times {b}?|{a} times {b}|Multiply {a} by {b}|{a} * {b}|How much is {a} x {b}?|What's {a} multiplied by {b}?",
                    f"{a} * {b}",
                ),
                (
                    f"What is {a} plus {b}?|Add {a} and {b}|{a} + {b}|How much is {a} and {b} together?|What do {a} and {b} make?|sum of {a} and {b}",
                    f"{a} + {b}",
                ),
                (
                    f"What is {a} minus {b}?|Subtract {b} from {a}|{a} - {b}|Take {b} away from {a}|How much is {a} less {b}?",
                    f"{a} - {b}",
                ),
                (
                    f"What is {a} divided by {b}?|Divide {a} by {b}|{a} / {b}|{a} over {b}|How often does {b} go into {a}?",
                    f"{a} / {b}",
                ),
                (
                    f"What is {a}% of {b}?|{a} percent of {b}|How much is {a} % of {b}?|Calculate {a}% of {b}|Take {a} percent of {b}.",
                    f"{b} * {a} / 100",
                ),
                (
                    f"Calculate ({a} + {b}) * {c}|What is ({a} + {b}) * {c}?|({a} + {b}) * {c}|Work out ({a}+{b})*{c}|Evaluate ({a} + {b})*{c}",
                    f"({a} + {b}) * {c}",
                ),
                (
                    f"Calculate {a} * {b} - {c}|{a} * {b} - {c}|What is {a}*{b}-{c}?|Work out {a} * {b} - {c}",
                    f"{a} * {b} - {c}",
                ),
            ]
        )
        request = pick(rng, asked.split("|"), self.split)
        value = str(rng.choice([rng.randint(0, 9999), round(rng.uniform(0, 9999), 2)]))
        return Step(request, self._call("calc", expression=formula), value, f"That is {value}.", (value,))

    def several(self, rng: random.Random) -> tuple[str, list[Step]]:
        """Two or three of them in one request."""
        steps: list[Step] = []
        while len(steps) < rng.choice([2, 2, 2, 3]):
            step = self.step(rng)
            if all(step.call != s.call for s in steps):
                steps.append(step)
        parts = [s.request.rstrip(".?!") for s in steps]
        if (
            all(part[:1].isalpha() and "?" not in s.request for part, s in zip(parts, steps, strict=True))
            and rng.random() < 0.6
        ):
            link = rng.choice([" and ", ", then ", " and then ", "; ", ", and "])
            return link.join(
                [
                    parts[0],
                    *(
                        uncapital(p, [v for s in steps for v in map(str, s.call[1].values())])
                        for p in parts[1:]
                    ),
                ]
            ), steps
        ends = ["?" if s.request.endswith("?") else "." for s in steps]
        return rng.choice([" ", "\n"]).join(p + e for p, e in zip(parts, ends, strict=True)), steps
