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


def typed(rng: random.Random, request: str, value_first: bool) -> str:
    """value_first: it begins with a value, which is copied as it is."""
    first, _, rest = request.partition(" ")
    if first in ORDERS and rest and not re.search(r"[.?!] ", request) and rng.random() < 0.3:
        bare = request.rstrip(".!")
        return rng.choice(ASKING).format(bare[0].lower() + bare[1:])
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
        behind = rng.choice(BEHIND)
        return request + behind if behind[1:2].isupper() else request.rstrip(".?!") + behind
    return request
