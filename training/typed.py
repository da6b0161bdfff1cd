# ruff: noqa: E501, SIM905 -- words are data: they read better than wrapped ones
"""How people type what they want: a word before or behind, "can you …", small letters, no stop. Values stay as
they are."""

from __future__ import annotations

import random
import re

ORDERS = frozenset(
    "Put Let Show Make Give Tell Get Write Take Turn Send Look Find Open Bring Set Add Note Keep Check Stop Start Move Compare Say Close Ask Save Remember Report Run Buy Count Drop List Shut "
    "Hold Leave Book Mark Plan File Issue Cut Delete Remove Kill Cancel Raise Print Change Text Hide Merge Call Ring Sum Read Answer Reply Roll Pass Create Throw Clean Log Wake Resize Pause Record "
    "Release Seat Carry Rent Feed Water Play Skip Pack Block Ping Forget Hand Pull Order Sign Invite Tick Post Pick Allow Tag Label Draw Restart Grow Describe Export Dump Withdraw Revoke Schedule "
    "Suspend Publish Sell Bake Pump Fill Empty Register Enter Rename Translate Update Edit Charge Heat Search Assign Convert Scale Zip Compress Extract Append Quiz Test Rate Bookmark Sort Forward "
    "Archive Subscribe Deploy Fetch Upload Download Share Lock Unlock Arm Dim".split()
)
NAMED = frozenset(
    "Plan Note Report Water Mark File Text Order Test Rate List Book Sort Seat Label Tag Rent Scale Heat Count Call Answer Change Start Stop Cut Charge Log Run Feed Set Print Issue Draw Sum".split()
)
JOINING = frozenset("of for in at from on".split())
"""Words that are orders, but for those before one of these: the plan of a day."""
BEFORE = (
    "Hey, ",
    "Hmm. ",
    "Oh dear. ",
    "Sorry, but: ",
    "Hi! ",
    "Listen: ",
    "ok so ",
    "One more thing: ",
    "Quick one: ",
    "Hello, ",
)
BEHIND = (
    " Thanks!",
    " Thanks!",
    " thanks",
    " Thank you.",
    " please",
    " asap",
    " :)",
    " Cheers.",
    " That's all.",
    "!",
)
ASKING = ("Please {}", "please {}", "Can you {}?", "can you {}", "Could you {}?", "Could you please {}?", "{}, please", "{} please", "I want you to {}", "I'd like you to {}.", "Would you {}?", "You should {}.", "Go and {}.", "Now {}")  # fmt: skip
BARE = {"What's": "Whats", "I'm": "Im", "don't": "dont", "Don't": "Dont", "It's": "Its", "it's": "its", "can't": "cant", "I'd": "Id", "Where's": "Wheres", "isn't": "isnt"}  # fmt: skip


def typed(rng: random.Random, request: str, value_first: bool, value_last: bool) -> str:
    """value_first: it begins with a value, which is copied as it is; value_last: it ends in one, behind which
    a word without a stop would seem to be its last."""
    first, _, rest = request.partition(" ")
    order = first in ORDERS and rest and not (first in NAMED and rest.split(" ")[0] in JOINING)
    if order and not re.search(r"[.?!] ", request) and rng.random() < 0.3:
        bare = request.rstrip(".!")
        forms = [form for form in ASKING if not (value_last and form.endswith("please"))]
        return rng.choice(forms).format(bare[0].lower() + bare[1:])
    if not value_first and rng.random() < 0.15:
        request = request[0].lower() + request[1:]
    if first in BARE and rng.random() < 0.1:
        request = BARE[first] + " " + rest
    roll = rng.random()
    if roll < 0.12:
        return rng.choice(BEFORE) + request
    if roll < 0.3:
        return request.rstrip(".!")
    if roll < 0.34:
        return request.rstrip(".?!")
    if roll < 0.48:
        behind = rng.choice([b for b in BEHIND if b[1:2].isupper()] if value_last else BEHIND)
        if behind == "!" and request[-1] == "?":
            return request
        return _stopped(request) + behind if behind[1:2].isupper() else request.rstrip(".?!") + behind
    return request


def _stopped(request: str) -> str:
    return request if request[-1] in ".?!" else f"{request}."
