# ruff: noqa: E501 -- sentences are data: one a line reads better than wrapped ones
"""What people say to an assistant beside their requests, and what is said back. Knows no tools but their names."""

from __future__ import annotations

import random
from collections.abc import Sequence

from training.naming import Split, capital, joined, pick, words


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split("|"))


OPENINGS = {
    "hello": _list(
        "Hey there|Good evening|Good afternoon|Hello there|Morning|Greetings|Hiya|Yo|Howdy|Hello, anyone there?|Hi, are you there?|Are you there?|Hello again|Hi, it's me again|Good day|Hey, good to see you|Evening|Ahoy|Hello hello|Hi, I'm new here|Is anybody there?|Hey, you up?|Hi, nice to meet you"
    ),
    "thanks": _list(
        "Thank you very much|Thank you so much|Many thanks|Thx|ty|Cheers|Great, thanks|Perfect, thank you|OK thanks|Okay, thank you|That helped, thanks|Thanks for your help|Thank you, that is all I needed|Much appreciated|I appreciate it|Thanks, that's it|Wonderful, thanks a million|Thanks, you saved my day|That's very kind of you|Thank you, good to know|Thanks for letting me know|Got it, thanks|Ah, thanks|Alright, thank you|thanks again|You're a great help, thank you"
    ),
    "bye": _list(
        "Bye bye|See you|See you later|See you tomorrow|Good night|That's all for today|That's all, bye|I have to go now|Talk to you later|Have a nice day|Take care|So long|I'm off, bye|Catch you later|Farewell|I'm done for today|Sleep well|Until next time|Gotta run|That would be all|Have a good weekend|Ciao|I'm leaving now"
    ),
    "who": _list(
        "What are you?|What's your name?|Do you have a name?|Are you a robot?|Are you human?|Are you a real person?|Introduce yourself|Tell me about yourself|Who am I talking to?|What should I call you?|Are you an AI?|Which model are you?|What kind of assistant are you?|Who is this?|Say who you are|May I ask who you are?|Am I talking to a machine?|And you are?|What do people call you?"
    ),
    "able": _list(
        "How can you help me?|What are you able to do?|What do you do?|Help|Help me, what can I ask?|What can I ask you?|What are you good for?|Which tools do you have?|What can I use you for?|Tell me what you can do|Show me what you can do|What are your skills?|What are your functions?|How do you work?|What kind of things can you do?|In what way can you help?|Can you help me?|I don't know what to ask you|What is possible here?|What do you know how to do?|What are you here for?|Could you tell me what you are able to do?"
    ),
    "how": _list(
        "How's it going?|What's up?|How do you do?|Are you okay?|How is your day?|How have you been?|Everything alright?|You doing well?|How do you feel?|Did you sleep well?|Are you busy?|How's life?|All good?|How was your weekend?|Sup?"
    ),
    "praise": _list(
        "Well done|Nice|Awesome|Excellent|That was fast|You're great|You are really helpful|Wow, impressive|Brilliant|I like you|That is exactly what I wanted|Amazing work|You rock|Cool|Good to know|Very good|Nicely done|That's right|You're the best|I'm impressed|Lovely|Super|Sounds good"
    ),
    "leave": _list(
        "Forget it|Forget about it|It's nothing|No, it's fine|Doesn't matter|Not now|Don't bother|I changed my mind|Leave it|Stop|Cancel that thought|Oh, it's not important|Actually, no|Ignore that|Skip it|Nothing, sorry|Sorry, wrong window|Let's drop it|No need anymore|I've sorted it out myself"
    ),
    "sure": _list(
        "Alright|I see|Hmm|Fine|Got it|Understood|Aha|Yes|No|Maybe|Right|Sure|Makes sense|Oh|Interesting|Let me think|One moment, please|Wait a second|I'll be right back|Hang on|Noted|Fair enough|ok cool"
    ),
    "sorry": _list(
        "Sorry about that|My mistake|Oops|I'm sorry to bother you|Sorry, I was away|Pardon me|My bad|I apologize|Oh no, my fault"
    ),
    "mood": _list(
        "I'm tired|I'm bored|I'm so happy today|It's Monday again|I had a long day|I'm in a hurry|I love this|What a day|I feel great|I'm a bit stressed|I just woke up|I'm back|It's my birthday|I am hungry|Today is not my day|Finally weekend"
    ),
    "chat": _list(
        "Can we talk?|Let's chat|Talk to me|Tell me something|Do you like me?|Do you have feelings?|Do you ever sleep?|How old are you?|Where do you live?|Where are you from?|Who made you?|Are you smart?|Do you have friends?|What do you think about me?|Can you speak?|Test|testing, testing|Just testing|Is this thing on?|Can you hear me?"
    ),
}
USUAL = {
    "hello": ("Hello", "Hi", "Hey", "Good morning"),
    "thanks": ("Thanks", "Thank you", "Thanks a lot"),
    "bye": ("Bye", "Goodbye"),
    "who": ("Who are you?",),
    "able": (
        "What can you do?",
        "What can you do for me?",
        "How can you help?",
        "What can I do with you?",
        "What do you offer?",
    ),
    "how": ("How are you?", "How are you doing?"),
    "praise": ("Great", "Perfect", "Good job"),
    "leave": ("Never mind", "Nevermind"),
    "sure": ("OK", "Okay"),
    "sorry": ("Sorry",),
}
"""The most usual openings: said in training alone, and often."""
ANSWERS = {
    "hello": _list(
        "Hello! How can I help you?|Hi! What can I do for you?|Hello! What do you need?|Hi there! How can I help?|Good to see you. What can I do?"
    ),
    "thanks": _list(
        "You're welcome!|Glad to help.|Any time.|You're welcome. Anything else?|My pleasure.|Happy to help!"
    ),
    "bye": _list("Goodbye!|See you soon.|Bye! Take care.|Goodbye, have a good day!|See you!"),
    "who": _list(
        "I am LaneFormer-nano, a small model that calls tools.|I'm LaneFormer-nano, a small language model made to use tools.|My name is LaneFormer-nano. I am a small model that calls tools.|I am a small language model named LaneFormer-nano."
    ),
    "how": _list(
        "I'm fine, thank you. How can I help?|All is well, thanks. What can I do for you?|Very well, thank you!|I'm doing well. What do you need?"
    ),
    "praise": _list(
        "Thank you!|Glad you like it.|Thanks, that is kind.|Happy to hear that.|Good to hear. Anything else?"
    ),
    "leave": _list(
        "All right.|No problem.|Okay, just tell me when you need something.|Fine, I leave it.|Sure, no problem."
    ),
    "sure": _list(
        "All right. Is there anything else?|Okay. Tell me what you need.|Good. What can I do for you?|Okay, I'm here."
    ),
    "sorry": _list("No problem.|That's all right.|No worries!|Never mind, how can I help?"),
    "mood": _list(
        "I see. Is there anything I can do?|Thanks for telling me. How can I help?|I understand. What can I do for you?|Okay. Tell me if you need something."
    ),
    "chat": _list(
        "I'm only a small model, but I'm here to help.|I'm here. What can I do for you?|I am a small model and can't say much about that.|Yes, I'm here. How can I help?"
    ),
}
ABLE = _list(
    "I can help with {t}.|I have tools for {t}.|My tools are for {t}.|You can ask me for {t}.|I can do this: {t}."
)
UNABLE = _list(
    "I can call tools when you give me some, and talk a little.|I have no tools here, but we can talk a little.|Without tools I can only chat a little.|Give me tools and I will call them."
)
NO_TOOLS = _list(
    "I have no tools, so I can't do that.|Sorry, I have no tool for that here.|I can't do that: no tools were given to me.|That needs a tool, and I have none."
)
FIRST = ("hello", "hello", "hello", "who", "able", "how", "mood", "chat", "thanks", "sorry", "sure", "leave")
LAST = ("thanks", "thanks", "thanks", "bye", "praise", "praise", "leave", "sure", "sorry")
_CALLED = (
    "",
    "",
    "",
    "",
    "",
    " there",
    " again",
    ", my friend",
    ", assistant",
    ", buddy",
    " dear",
    " everyone",
)
_MORE = {
    "hello": ("how", "able", "who", "mood", "chat"),
    "thanks": ("bye", "praise"),
    "praise": ("thanks", "bye"),
    "sorry": ("leave", "thanks"),
    "sure": ("thanks", "bye"),
    "leave": ("thanks", "bye"),
}
"""What may be said in one breath behind another; the answer is to the last."""


def exchange(
    rng: random.Random, split: Split, tools: Sequence[str], kinds: Sequence[str] = tuple(OPENINGS)
) -> tuple[str, str]:
    """What a person says and the answer. tools: names of those in sight. kinds: of OPENINGS, to draw from."""
    kind = rng.choice(kinds)
    said = _said(rng, kind, split)
    if kind in _MORE and rng.random() < 0.2:
        kind = rng.choice(_MORE[kind])
        more = _said(rng, kind, split)
        said = f"{said}{rng.choice(['.', '!', ','])} {more}" if said[-1].isalnum() else f"{said} {more}"
    return _as_typed(rng, said), _answer(rng, kind, split, tools)


def _said(rng: random.Random, kind: str, split: Split) -> str:
    said = pick(rng, OPENINGS[kind], split)
    if split == "train" and kind in USUAL and rng.random() < 0.25:
        said = rng.choice(USUAL[kind])
    if kind in ("hello", "thanks", "bye") and said[-1].isalpha() and " " not in said:
        said += rng.choice(_CALLED)
    return said


def _as_typed(rng: random.Random, said: str) -> str:
    """With the stops and capitals that people put, or without."""
    roll = rng.random()
    if said[-1].isalnum():
        said += rng.choice(["", "", ".", "!", "!", " :)", "!!", "..."])
    elif roll < 0.2:
        said = said.rstrip("?!")
    roll = rng.random()
    return said.lower() if roll < 0.3 else said.upper() if roll < 0.32 else capital(said)


def _answer(rng: random.Random, kind: str, split: Split, tools: Sequence[str]) -> str:
    if kind != "able":
        return pick(rng, ANSWERS[kind], split)
    if not tools:
        return pick(rng, UNABLE, split)
    named = [words(t) for t in tools[:5]]
    text = joined(named, rng) if len(tools) < 6 else f"{', '.join(named)} and more"
    return pick(rng, ABLE, split).format(t=text)
