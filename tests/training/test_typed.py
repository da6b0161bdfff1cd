"""How requests are typed: the words of values stay, and an order stays one."""

from __future__ import annotations

import random
import re

from training.typed import ASKING, BARE, ORDERS, typed


def test_values_stay_as_they_are_and_what_is_asked_stays(draws: random.Random) -> None:
    seen = set()
    for _ in range(400):
        noun = typed(draws, "Plan of Friday.", value_first=False, value_last=True)
        assert not re.search("(?i)(you|to|please|and) plan", noun)
        made = typed(draws, "KX-22 must go to Léa & Sons.", value_first=True, value_last=True)
        assert "KX-22 must go to Léa & Sons" in made and not re.search("Sons [a-z]", made)
        order = typed(draws, "Move B7 to the Old Mill.", value_first=False, value_last=True)
        assert "ove B7 to the Old Mill" in order
        bare = typed(draws, "What's the rent of 4B?", value_first=False, value_last=True)
        assert bare.lower().replace("'", "").count("whats the rent of 4b") == 1
        seen |= {made, order, bare}
    assert len(seen) > 60 and all("{}" not in one for one in seen)


def test_orders_are_single_words_and_each_form_has_one_place() -> None:
    assert all(one.isalpha() and one[0].isupper() for one in ORDERS)
    assert all(form.count("{}") == 1 for form in ASKING)
    assert all(bare == full.replace("'", "") for full, bare in BARE.items())
