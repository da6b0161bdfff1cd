# ruff: noqa: E501 -- phrases are data: many a line read better than one
"""What stands around a request and between several: openers, joiners, tellings of several calls. Knows no tools."""

from __future__ import annotations

import random
from collections.abc import Sequence

from training.naming import Split, pick

# around what is asked of a composed or real tool
OPENERS = (
    "Please {}", "Could you {}?", "Can you {}?", "I want to {}.", "I'd like to {}.", "I need to {}.", "Help me {}.", "{}", "{}.", "Hey, {}", "Would you {}?",
    "My task is to {}.", "Go ahead and {}.", "We have to {}.", "I would like you to {}.", "Let's {}.", "It is time to {}.", "Time to {}.", "Make sure to {}.",
    "You should {}.", "My boss wants me to {}.", "Is it possible to {}?", "Are you able to {}?", "How about you {}?", "Now {}.", "Kindly {}.", "Just {}.", "Try to {}.",
    "I have to {} today.", "We want to {}, please.", "Do me a favor and {}.", "Will you {}?", "First of all, {}.", "I'm trying to {}.", "I am looking to {}.",
    "What I need is to {}.", "Please help us {}.", "Could you please {}?", "If you can, {}.", "{}, please.", "{}, will you?", "Assist me to {}.", "Somebody must {}.",
    "They asked us to {}.", "I'd love to {}.", "Please go and {}.", "Would you be so kind as to {}?", "I must {}.", "I have been asked to {}.",
    "The next thing is to {}.", "It would be nice to {}.", "Can somebody {}?", "Do {} for me.", "Then {}.", "You could {}.", "We are supposed to {}.",
    "Right now I want to {}.", "Let me {}.", "Today we {}.", "What I want: {}.", "Task: {}.", "Request: {}.", "To do: {}.", "I hope you can {}.",
    "Would it be possible to {}?", "Be so good and {}.", "Quickly {}.", "Our plan is to {}.", "My wish is to {}.", "The customer wants to {}.", "Might you {}?",
    "Someone has to {}.", "Before lunch we must {}.", "It is my job to {}.", "Could someone {}, please?",
)  # fmt: skip
# before a request
FILLERS = (
    "", "", "", "", "Hi! ", "Hello, ", "Thanks in advance. ", "Quick one: ", "OK, ", "Good morning. ", "Next: ", "Listen, ", "I'm working on a report. ",
    "We have a meeting soon. ", "This is for my homework. ", "My colleague asked me for something. ", "I was wondering about this for a while. ",
    "We are planning the next quarter. ", "I'm curious: ", "For my project: ", "As part of our review, here is what I want. ", "I'm new here. ",
    "Sorry to bother you again. ", "It would help me a lot. ", "Hey there, ", "Good evening. ", "I hope you are well. ", "It is raining here. ",
    "I have been busy all week. ", "My sister told me about you. ", "Our old program is broken. ", "This is urgent. ", "There is no hurry. ", "I have a small wish. ",
    "I looked everywhere and found nothing. ", "The meeting was moved, so I have time now. ", "I could not do it myself. ", "Nobody here knows how. ",
    "I read about it in the paper. ", "We did this by hand until now. ", "I'm back with another one. ", "You were a great help last time. ", "It's me again. ",
    "I am preparing a talk. ", "I write a blog about such things. ", "My daughter needs it for school. ", "Let's see whether you can do that: ", "Here is what I need: ",
    "Just wondering: ", "A quick question. ",
)  # fmt: skip
# before it, with a number that no argument is
ASIDES = (
    "We talked about this {n} days ago. ", "I have asked {n} times already. ", "I waited {n} hours for this. ", "There are {n} minutes left. ",
    "This is question {n} on my sheet: ", "Room {n} wants to know: ", "My {n} colleagues and I have a question. ", "After {n} tries I give up. ",
    "I have read {n} pages about it. ", "It is {n} degrees here. ", "My boss gave me {n} minutes. ", "We are {n} in our club. ", "I am {n} and still learning. ",
    "Since {n} weeks I want to know that. ", "Only {n} percent of my battery is left. ", "We won {n} to nothing yesterday. ",
    "For {n} dollars a friend offered to do it. ", "My train leaves in {n} minutes. ",
)  # fmt: skip
# behind it
TAILS = (
    "", "", "", "", "", "", " Thanks!", " I'd be grateful.", " It is for a friend.", " Thank you.", " That's all.", " Please hurry.", " It is not urgent.",
    " Have a nice day.", " Let me know.", " Many thanks.", " My boss is waiting.", " I need it for a talk.", " No need to explain.", " Thank you so much!", " Cheers.",
    " I'll wait.", " That would help.",
)  # fmt: skip
# sentences around a request that ask for nothing; {n} is any noun, {m} another, {a} any adjective
IDLE = (
    "I bought a {n} yesterday.", "My {n} is {a}.", "We talked about the {n} for hours.", "The {n} here is quite {a}.", "I never liked the {n}.", "My neighbour has a {n}.",
    "It has nothing to do with the {n}.", "Somebody mentioned a {n}.", "There was a {n} in the news.", "I had a {n} and a {m} for years.", "Everybody says that the {n} is {a}.",
    "I am sitting next to a {n}.", "A {a} {n} is not what I mean.", "My brother wants to know about the {n}, but that can wait.", "We saw a {n} on our way.",
    "I have to go to the {n} soon.", "The {m} of my friend is {a}.", "Please do not tell the {n}.", "You know how {a} a {n} can be.", "I dreamt of a {n}.", "It all began with a {n}.",
    "The {n} is for later.", "I already have a {n}.", "No {n} is needed.", "Ask me about the {n} another time.", "As a {n} I should know that.", "That will make the {m} {a}.",
    "I promised it to the {n}.", "Not the {n}, of course.", "The {n} has time.", "I will take care of the {n} myself.", "This is not about the {m}.", "Our {n} did not help.",
)  # fmt: skip
# between requests
JOINERS = (
    " Also, ", " And ", " Then ", " After that, ", " Besides, ", "\n", " Furthermore, ", "; ", " ", " And also ", " Additionally, ", " In addition, ", " Moreover, ",
    " On top of that, ", " Next, ", " Finally, ", " Plus, ", " I also need this: ", " One more thing: ", " Apart from that, ", " Second, ", " While you are at it, ",
    " Afterwards, ", " Once done, ", " At the same time, ", " As well, ", " Oh, and ", " Then please ", " Likewise, ", " Lastly, ", ", and then ", ", and ", " - also, ",
    "\nAlso: ", "\nAnd ", " & ", " Separately, ", " For another matter, ", " Meanwhile, ", " Furthermore please ", " To finish, ", " Other than that, ",
    " Aside from this, ", " Also please ", " By the way, ", " Then also ", ". And then, ", " Oh, one more: ", " Another thing: ", " Also, could I ask: ", " OK, and ",
    " Right after, ", " Following that, ", " On another note, ", " Next up: ", " In the same go, ", " Thirdly, ", " To add to that, ", " Now for something else: ",
    " And if you can, ", " When that is finished, ", " When done, ", " Further, ", " Equally, ", " And one more request: ", " Then there is this: ", " Subsequently, ",
    " Later on, ", " My other question: ", " I have another one: ", " Similarly, ", " As a next step, ", " Not only that: ", " Beyond that, ", " In parallel, ",
    " Together with this, ", " Next please ", " Incidentally, ", " That aside, ", " And now ", ", and also ", ", after which ", " + ", "\n\n", "\nThen ", "\nNext: ",
    " ... and ", " -- then ", " PS: ", " What is more, ", " And another: ", " Then, please, ", " Yet another request: ", " To go on, ", " And while we are here, ",
    " Also needed: ", " Add to this: ", " Number two: ", " Last but not least, ", " On the same day, ", " In the end, ", " As a last point, ", " Together with that, ",
    " Not to forget: ", " Over and above that, ", " Alongside, ", " Still, ", " Again, ", " For the next one, ", " Before I forget, ", " In the next step, ",
    " As an extra, ", " Another one for you: ", "; also, ", "; then ", "; and ", "; after that ", ", but also ", ", plus ", ", then ", ", as well as: ", " - and ",
    " - then ", " / ", " || ", "\n- ", "\n* ", "\nPlease also ", "\nAfter that, ", "\nOne more: ", "\nFinally, ", "\n\nAnd then ", "\n\nAlso, ", " Apart from this: ",
    " Further on, ", " As for the rest, ", " My second wish: ", " Also do this: ", " Here is the next: ", " It would also help to know this: ", " And I wonder: ",
    " Now that we are at it, ", " Oh yes, ", " And please ", " To top it off, ", " Another point: ", " And, lastly, ", " One thing more, ", " There is something else: ",
    " Then there's another matter. ", " And finally: ", " Second thing: ", " Third: ", " Also, before you stop, ", " Right, and ", " Well, and ", " Additionally please ",
    " Concurrently, ", " Simultaneously, ", " At once, ", " And in the same breath, ",
)  # fmt: skip
# in front of another request or the last of several values; which word it is does not matter
ADVERBS = (
    "accordingly", "additionally", "afterwards", "again", "apparently", "at length", "basically", "certainly", "clearly", "consequently",
    "correspondingly", "curiously", "even better", "eventually", "evidently", "first", "for a start", "for good measure", "fortunately", "frankly", "funnily enough",
    "generally", "hopefully", "ideally", "if possible", "immediately", "importantly", "in any case", "in fact", "in short", "in turn", "incidentally", "indeed", "interestingly",
    "just as well", "last", "likewise", "maybe", "meanwhile", "more importantly", "more precisely", "naturally", "needless to say", "next", "nonetheless", "notably", "now",
    "obviously", "of course", "oddly enough", "on reflection", "on second thoughts", "originally", "particularly", "perhaps", "possibly", "preferably", "presently",
    "presumably", "quickly", "quite simply", "really", "secondly", "separately", "seriously", "shortly", "similarly", "simply", "specifically", "strictly speaking",
    "subsequently", "surely", "technically", "then again", "thereafter", "thereupon", "to be sure", "ultimately", "unexpectedly", "usually", "well",
)  # fmt: skip
BEFORE_A_REQUEST = (" {A}, ", " {A}, ", " {A}: ", "; {a}, ", " And {a}, ", " {A} ", "\n{A}, ", ". {A}, ")
BEFORE_A_VALUE = (", and {a} ", " and {a} ", ", {a} ", "; {a} ", ", then {a} ")


def adverbial(rng: random.Random, forms: Sequence[str]) -> str:
    """One of the forms with one of the adverbs."""
    adverb = rng.choice(ADVERBS)
    return rng.choice(forms).format(a=adverb, A=adverb.capitalize())


def link(rng: random.Random, forms: Sequence[str], links: Sequence[str], split: Split) -> str:
    """One of the links; in training now and then any adverb in one of the forms, also one that no list here has."""
    wild = split == "train" and rng.random() < 0.25
    return adverbial(rng, forms) if wild else pick(rng, links, split)


# once more, with {w}
ANOTHER = (
    " and another with {w}", ", then one with {w}", "; the same with {w}", " Also with {w}.", " and again with {w}", ", as well as one with {w}", ". Then with {w}",
    ", plus one with {w}", ". Do it once more, but {w}", ". And with {w}", "; next, {w}", "; then the same with {w}", ", and a further one with {w}", ". Again with {w}",
    "; also one with {w}", ". The next with {w}", ". Next one: {w}", ", once more with {w}", "; after that {w}", ". Repeat with {w}", ", besides one with {w}",
    ". Another time with {w}", ", lastly one with {w}",
)  # fmt: skip
ORDINALS = (
    "second", "third", "fourth",
)  # fmt: skip
CASES = (
    "For the {i}, {w}", "In the {i} case, {w}", "The {i} is {w}", "And the {i}: {w}", "The {i} one {w}", "Then a {i}, {w}", "As for the {i}, {w}", "{i}: {w}",
    "{i} case: {w}", "For the {i} one take {w}", "The {i} time {w}", "With the {i}, {w}", "In the {i} round, {w}", "Number {i}: {w}", "On the {i} go, {w}",
    "Let the {i} be {w}",
)  # fmt: skip
BRIEF = (
    " and {w}", ", and {w}", ", then {w}", " and also {w}", ", and then {w}", " and again {w}", "; then {w}", ", followed by the same {w}", ", as well as {w}",
    " and how about {w}", ", and what about {w}", ", next {w}", ", lastly {w}", " and lastly {w}", ", also {w}", "; and {w}", ", and at last {w}", " plus {w}",
    ", again {w}", ", and the same {w}", " as well as {w}", ", besides {w}", ", and in addition {w}", ", then again {w}",
)  # fmt: skip
# between groups of values, before the last
LINKS = (
    " and ", ", and ", ", as well as ", " as well as ", "; ", ", then ", " plus ", ", also ", " and then ", ", and then ", " & ", ", along with ", ", and finally ",
    " and lastly ", ", besides ", ", plus ", ", and in the end ", ", lastly ", ", and at last ", ", together with ", ", besides that ", ", next ", ", followed by ",
    ", and after that ", "; then ", "; and ", ", in addition ", ", and likewise ", ", and once more ", ", and ultimately ", " together with ", ", then also ",
    ", in the end ", " and at last ", " and ultimately ", ", last of all ", ", and last ",
)  # fmt: skip
# the same where each group is led by its words
LED_LINKS = (
    ", and also ", ", also ", ", and then ", ". Also ", ", and again ", ", plus ", ". And ", "; and ", ", and once more ", ", next ", ", further ", ", besides also ",
    ", in addition ", "; also ", "; then ", "; again ", ". Then ", ". Next ", ". Finally ", ". And again ", ", lastly ", ", likewise ", ", and likewise ",
    ", and in the end ", ", and next ", ". Further ",
)  # fmt: skip
# one and another
ONES = (
    "{q}: one {w}", "{q}. One {w}", "{q}, one {w}", "{q}. I need {n} of these: one {w}", "{q}, for {n} of them: one {w}", "{q}: first one {w}", "{q}; one {w}",
    "{q}. There is one {w}", "{q}, namely one {w}", "{q}. {n} cases: one {w}",
)  # fmt: skip
# before cases that follow
LEADS = (
    "There are {n} cases. ", "I have {n} of them. ", "I want to do this {n} times. ", "Here are {n} {t}. ", "Consider {n} {t}. ", "We have {n} {t}. ",
    "Someone is working with {n} {t} and wants an answer for each. ", "This is about {n} {t}. ", "My teacher gave us {n} {t}. ", "{N} {t}: ", "Imagine {n} {t}. ",
    "In an experiment there are {n} {t}. ", "A student compares {n} {t}. ", "Suppose we look at {n} {t}. ", "I am comparing {n} {t}. ",
    "Imagine you are looking at {n} {t}. ", "For a report I need numbers for {n} {t}. ", "{N} {t} are given. ", "Our team has {n} {t} to check. ",
    "Let us take {n} {t}. ", "Say we have {n} {t}. ", "I am thinking about {n} different {t}. ", "There are {n} {t} on my list. ", "We measured {n} {t}. ",
    "We talk about {n} {t}. ", "I want to compare {n} {t}. ", "My list has {n} {t}. ", "On the table lie {n} {t}. ", "{N} {t} have to be done. ", "Take {n} {t}. ",
    "They gave me {n} {t}. ", "Here we have {n} {t}. ", "For my class I chose {n} {t}. ", "I need numbers for {n} {t}. ", "Now there are {n} {t}. ", "Picture {n} {t}. ",
    "A friend sent me {n} {t}. ", "Look at these {n} {t}. ",
)  # fmt: skip
# behind the question to all cases
EACH = (
    " for each", " for each of them", " for each case", " in each case", " for each one", " in both cases", " for both", " for all of them", " separately",
    " for every one of them", " each time", " for every case", " one by one", " for each in turn", " for all cases",
)  # fmt: skip
PEOPLE = (
    "Anna", "Ben", "Clara", "David", "Emma", "Farid", "Grace", "Hiro", "Ines", "Jonas", "Kofi", "Lena", "Maya", "Noah", "Olga", "Pablo", "Ravi", "Tomas", "Uma", "Wanda",
    "Zoe", "Alice", "Bruno", "Carmen", "Dmitri",
)  # fmt: skip
# the values of one parameter, counted
COUNTED = (
    " I need it for {n} {t}: {l}.", " Do this for the {t} {l}.", " There are {n} {t}: {l}.", " The {t} are {l}.", " My {n} {t} are {l}.", " It is about {n} {t}, {l}.",
    " Please do it for each of these {t}: {l}.", " ({t}: {l})", " Take {l} as {t}.", " I have {n} {t}: {l}.", " Each of these {t}, please: {l}.", " For {n} {t}: {l}.",
    " The {n} {t}: {l}.", " Let the {t} be {l}.", " For the {t} take {l}.", " Once for each of the {n} {t}, {l}.", " Use these {t}: {l}.", " All {n} {t} count: {l}.",
    " I need all of the {t} {l}.", "\n{t}: {l}",
)  # fmt: skip
# the whole once more
AGAIN = (
    " Do the same {w}.", " Then do the same calculation {w}.", " And can you do the same but {w} instead?", " Can you also do it {w}?", " The same again {w}, please.",
    " What if it were {w} instead?", " How about {w}?", " And what about {w}?", " Also do this {w}.", " Repeat this {w}.", " Now once more, {w}.", " And {w}?",
    " And also {w}.", " I also need the same {w}.", " Then again {w}.", " Please do that {w} too.", " Next, the same {w}.", " Also {w}.",
    " Could you then repeat it {w}?", " Everything else being the same, what about {w}?", " Run it a second time {w}.", " After that, do it {w}.", " Do likewise {w}.",
    " Once more, {w}.", " And the same {w}.", " I want that {w}, too.", " Same question {w}.", " Now {w}, everything else as before.", " Do it another time {w}.",
    " And again {w}.", " The rest stays, now {w}.", " Then comes the same {w}.", " Another one {w}.", " What would it be {w}?", " What about the same {w}?",
    " Also the same thing {w}.", " Could I have it {w} as well?", " Redo it {w}.", " Likewise {w}.", " Next one: {w}.", " Change it and do it {w}.",
    " Keep all but this: {w}.", " Again, but {w}.", " Try it {w}, too.", " Now suppose it is {w}.", " And if it is {w}?",
)  # fmt: skip
# before whole sentences
STARTS = (
    "Also, ", "My next question: ", "Then, ", "And ", "After that, ", "Next, ", "In addition, ", "Secondly, ", "And also, ", "Additionally, ", "Finally, ",
    "I would also like this: ", "Besides that, ", "Furthermore, ", "On top, ", "Likewise, ", "Lastly, ", "Then again, ", "Moreover, ", "Apart from that, ",
    "Once that is done, ", "Second: ", "Next question: ", "Then please, ", "One more: ", "Further, ", "And one more thing: ",
)  # fmt: skip
# before a line for each call
LINED = (
    ":", " for each of these:", " for the following {t}:", " for these {t}:", ". The {t}:", ", once for each line:", ". Here is the list:", ". I need it for:", " for:", " with:", " (one answer a line):",
    ". These are the {t}:", "; the {t} are:", " for every one of these {t}:",
)  # fmt: skip
# tuples with their names
TUPLES = (
    " for these {k} of {n}: {l}.", " with {n} {l}.", " for {n} of {l}.", " for the following {k} ({n}): {l}.", " for ({n}) = {l}.", ": {l} ({n}).", " taking {l} as {n}.",
    " with ({n}) being {l}.", " for {n} equal to {l}.", " ({n}: {l})",
)  # fmt: skip
# tuples without
PLAIN = (
    " for {l}.", " of {l}.", ": {l}.", " for the {k} {l}.", " of the following {k}: {l}.", " for these {k}: {l}.", " of the {c} {k} {l}.", " with {l}.", " for {k} {l}.",
    ", namely {l}.", " on {l}.", " for all of {l}.", " for these: {l}.", " given {l}.",
)  # fmt: skip
# of composed tools: a verb and how people say it; the things
VERBS = [
    ("get", "get|show me|fetch|look up|give me|retrieve|tell me"),
    ("list", "list|show|enumerate|show me all of"),
    ("find", "find|search for|look for|locate"),
    ("search", "search|look through|find"),
    ("create", "create|make|add|set up"),
    ("delete", "delete|remove|get rid of|erase"),
    ("update", "update|change|modify|edit"),
    ("calculate", "calculate|compute|work out|determine"),
    ("check", "check|verify|test|have a look at"),
    ("send", "send|deliver|submit"),
    ("book", "book|reserve|arrange"),
    ("convert", "convert|turn|change"),
    ("analyze", "analyze|examine|study"),
    ("generate", "generate|produce|make"),
    ("schedule", "schedule|plan|arrange"),
    ("compare", "compare|contrast"),
    ("estimate", "estimate|guess|predict|forecast"),
    ("start", "start|launch|run|begin"),
    ("stop", "stop|end|halt|cancel"),
    ("measure", "measure|gauge|determine"),
    ("assign", "assign|give|allocate"),
    ("export", "export|download|save"),
    ("import", "import|load|upload"),
    ("validate", "validate|check|confirm"),
    ("summarize", "summarize|sum up|condense"),
    ("rank", "rank|sort|order"),
    ("order", "order|buy|purchase"),
    ("monitor", "monitor|watch|observe"),
]
NOUNS = [
    "report", "invoice", "order", "ticket", "user", "account", "device", "sensor", "report", "budget", "meeting", "project", "contract", "price", "route", "flight",
    "hotel", "room", "recipe", "workout", "lesson", "course", "exam", "grade", "song", "album", "movie", "actor", "player", "team", "match", "score", "tournament",
    "planet", "star", "molecule", "cell", "gene", "protein", "reaction", "equation", "matrix", "vector", "distance", "speed", "temperature", "pressure", "energy",
    "voltage", "loan", "mortgage", "stock", "portfolio", "tax", "salary", "dividend", "currency", "rate", "city", "country", "river", "mountain", "population", "law",
    "case", "court", "patent", "statute", "painting", "sculpture", "museum", "concert", "festival", "restaurant", "menu", "wine", "garden", "plant", "animal", "species",
    "bird", "fish", "patient", "medicine", "diagnosis", "appointment", "insurance", "server", "database", "table", "index", "backup", "branch", "commit", "build", "log",
    "alert", "metric", "dashboard", "playlist", "photo", "video", "file",
]  # fmt: skip
