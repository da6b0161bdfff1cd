"""Requests for calls: twins differ in one thing, cousins in one word of a name; what is told can be read."""

from __future__ import annotations

import random
import re
from pathlib import Path

import jsonschema
import pytest

import training.asking
import training.phrases
import training.variety
from training.asking import opening
from training.contrast import twin
from training.dialogues import Writer
from training.kinds import Kinds
from training.naming import Split, checksum, kept, slots_of, widened, words
from training.operations import _imperative
from training.pools import Pools
from training.spoken import _SMALL, Spoken, clock, listed
from training.tasks import _run_on, parallel, several
from training.tools import arguments, plain
from training.toolsmith import Toolsmith
from training.values import option


def _smith(folder: Path, split: Split = "train") -> Toolsmith:
    return Toolsmith(Kinds(Pools(folder / "pools.json.gz"), split))


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_twin_differs_in_one_thing_and_fits_the_schema(
    data_folder: Path, split: Split, draws: random.Random
) -> None:
    smith = _smith(data_folder, split)
    swapped = more = fewer = 0
    while min(swapped, more, fewer) < 5:
        tool = smith.tool(draws)
        spoken = arguments(draws, tool, 0.5)
        task = twin(draws, tool, spoken)
        if not task:
            continue
        ((name, made),), given = task.calls, plain(spoken)
        assert name == tool.name and made != given
        jsonschema.validate(made, tool.schema())
        assert list(made) == [p.name for p in tool.params if p.name in made]
        if made.keys() == given.keys():
            changed = [k for k in made if made[k] != given[k]]
            assert len(changed) == 2 and [made[k] for k in changed] == [given[k] for k in reversed(changed)]
            swapped += 1
        else:
            assert len(made.keys() ^ given.keys()) == 1
            assert all(made[k] == given[k] for k in made.keys() & given.keys())
            more, fewer = more + (len(made) > len(given)), fewer + (len(made) < len(given))


def test_cousins_may_share_all_parameters_but_never_a_name(data_folder: Path, draws: random.Random) -> None:
    smith = _smith(data_folder)
    shared = 0
    while shared < 3:
        made = smith._cousins(draws, 3)
        assert len({t.topic for t in made}) > 1
        sets = [tuple(p.name for p in t.params) for t in made]
        shared += len({frozenset(s) for s in sets}) == 1
        one, other = (set(words(t.topic).split()) for t in made[:2])
        assert one & other or one == other, (one, other)


def test_phrases_kept_for_the_test_split_stay_what_they_were() -> None:
    told = {
        training.phrases.JOINERS: " Besides, ",
        training.phrases.LINKS: ", and finally ",
        training.phrases.AGAIN: " Everything else being the same, what about {w}?",
        training.asking.LATER: "Set the {n} to {v}.",
    }
    for phrases, held_out in told.items():
        assert kept(phrases) == held_out
        assert len(set(phrases)) > 20
    # the word before the last of several: any, but not those that the test split asks with
    assert not {"besides", "finally"} & set(training.phrases.ADVERBS)


def test_phrases_of_training_alone_never_take_the_place_of_the_kept_one(draws: random.Random) -> None:
    for _ in range(40):
        words_ = ["".join(draws.choices("abcdefgh", k=6)) for _ in range(draws.randint(4, 30))]
        base, more = words_[: draws.randint(4, len(words_))], words_[3:]
        wide = widened(base, more, "train")
        assert kept(wide) == kept(base) and wide[: len(base)] == base
        assert widened(base, more, "test") == base
        low = checksum(kept(base))
        assert set(wide) == {*base, *(m for m in more if checksum(m) > low)}
    for names, _, _, told, more_told in training.variety.PAIRS:
        both = widened(told.split("|"), more_told.split("|"), "train")
        assert kept(both) == kept(told.split("|")), names
        assert len(both) > 8 and all({"a", "b"} == set(slots_of(phrase)) for phrase in both), names


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ("Creates a vault.", "create a vault"),
        ("Immediately and permanently deletes the thread.", "immediately and permanently delete the thread"),
        ("Creates, checks and starts a job.", "create, check and start a job"),
        ("Queries and filters that are kept", "query and filter that are kept"),
        ("Task runners call this to report.", ""),
        ("Running this permits a client to write.", ""),
        ("GetRule returns a rule.", ""),
        ("POST /v1/rules", ""),
    ],
)
def test_an_operation_is_asked_for_by_what_its_description_says_it_does(about: str, said: str) -> None:
    assert _imperative(about) == said


def test_no_request_for_an_operation_ends_in_the_middle_of_a_phrase(draws: random.Random) -> None:
    for _ in range(50):
        tail = draws.choice(["of the", "that is", "and with your", "(which can"])
        filler = " ".join("x" * draws.randint(3, 9) for _ in range(3))
        said = _imperative(f"Lists the rules for {filler} {tail}")
        assert said == f"list the rules for {filler}"


def test_a_time_told_in_words_is_the_time_of_the_call(draws: random.Random) -> None:
    seen = set[str]()
    while seen < {"past", "half", "to", "bare"}:
        drawn = clock(draws)
        hour, minute = map(int, drawn.value.split(":"))
        if drawn.text == f"{hour}:{minute:02}" != drawn.value:
            seen.add("bare")
        if told := re.fullmatch(r"(half past|(?:a )?quarter (?:past|to)) (\w+) in the (\w+)", drawn.text):
            ahead = told[1].endswith("to")
            assert minute == (45 if ahead else 30 if told[1] == "half past" else 15)
            assert _SMALL[(hour + ahead + 11) % 12 + 1] == told[2]
            assert (told[3] == "morning") == (hour < 12)
            seen.add("half" if told[1] == "half past" else "to" if ahead else "past")


def test_any_adverb_may_lead_to_the_next_request_in_training_and_none_in_the_test_split(
    data_folder: Path, draws: random.Random
) -> None:
    smith, seen = _smith(data_folder), set[str]()
    while len(seen) < 4:
        asked = several(draws, [smith.computing(draws) for _ in range(2)], "train").request
        words_led_by = re.findall(r"[.;] ([A-Za-z ]+?)[,:]", asked)
        seen |= set(training.phrases.ADVERBS) & {w.lower() for w in words_led_by}
    smith = _smith(data_folder, "test")
    for _ in range(20):
        asked = several(draws, [smith.computing(draws) for _ in range(2)], "test").request
        in_lines = re.search(r"(^|\n| )(1[.)]|\(1\)|- )", asked)
        assert in_lines or " Besides, " in asked, asked


def test_an_idle_sentence_leaves_the_request_as_it_is(data_folder: Path, draws: random.Random) -> None:
    writer = Writer(Pools(data_folder / "pools.json.gz"), "train")
    before = behind = 0
    while not before or not behind:
        told = writer._among_others(draws, "Roll two dice.")
        before += told.endswith(" Roll two dice.")
        behind += told.startswith("Roll two dice. ")
        assert "Roll two dice." in told and "{" not in told
    test = Writer(Pools(data_folder / "pools.json.gz"), "test")
    assert all(test._among_others(draws, "Roll.") == "Roll." for _ in range(50))


def test_where_an_item_of_a_list_ends_can_be_read(draws: random.Random) -> None:
    texts = ["Rome, NY", "bread and butter", "Oslo"]
    while True:
        drawn = listed(draws, lambda r: Spoken(t := r.choice(texts), t), 2, 3)
        quoted = re.findall(r'"([^"]*)"', drawn.text)
        assert quoted == drawn.value or len(drawn.value) == 1, drawn
        if len(drawn.value) == 3 and not drawn.text.startswith("["):
            break


def test_options_that_case_alone_tells_apart_keep_it() -> None:
    assert option("SIX_MONTHS") == "SIX_MONTHS" and option("Gluten-free") == "gluten free"
    assert option("Wi-Fi") == "Wi-Fi" and option("B") == "B"


def test_a_value_at_the_head_of_a_sentence_is_copied_as_it_is() -> None:
    given = {"file": Spoken("notes/a.txt", "notes/a.txt")}
    assert opening("notes/a.txt, in Oslo", given) == "notes/a.txt, in Oslo"
    assert opening("in Oslo", given) == "In Oslo"


def test_no_list_stands_within_a_formula(data_folder: Path, draws: random.Random) -> None:
    smith = _smith(data_folder)
    from training.sketches import SKETCHES

    roots = next(s for s in SKETCHES if s.names[0] == "quadratic_roots")
    made = 0
    while made < 5:
        if task := parallel(draws, smith.everyday(draws, roots), "train"):
            made += 1
            assert not re.search(r"\d(,| and) -?\d+x", task.request), task.request


def test_no_list_goes_on_in_the_value_of_another_argument(draws: random.Random) -> None:
    a, b, c = draws.sample(range(10, 99), 3)
    listed_ = {"end": Spoken(None, f"{b}, and {c}")}
    given = {"start": Spoken(a, str(a)), "end": Spoken(b, str(b))}
    assert _run_on(f"Within the bounds {a} and {b}, and {c}, please", listed_, given)
    assert _run_on(f"From {b}, and {c} and {a}", listed_, given)
    assert not _run_on(f"Starting at {a} with {b}, and {c} as the ends", listed_, given)
