"""Stamps, and the texts of states: what they hold comes back, and foreign words in them stay words."""

from __future__ import annotations

from typing import get_args

import cmarkgfm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.reports.publish.events import State
from evenbench.reports.publish.outcome import (
    RANK,
    Outcome,
    Stamp,
    accepted_check,
    check_text,
    config_name,
    note_marker,
    parse,
    state_comment,
    with_accepted,
)
from evenbench.reports.render.comment.comment import Links

HEAD = "b" * 40
STAMPS = st.builds(
    Stamp,
    config=st.text(max_size=80).map(config_name),
    state=st.sampled_from(get_args(State)),
    head=st.text("0123456789abcdef", min_size=40, max_size=40),
    run=st.integers(0, 10**18),
    attempt=st.integers(1, 10**6),
    number=st.integers(0, 10**9),
    since=st.integers(0, 10**10),
    verdict=st.sampled_from(["none", "fine", "regressed"]),
)
HOSTILE = "x --> | `a` </details> @org #1 [a](b) <!-- evenbench \u202e\n### y"


@given(STAMPS)
def test_a_stamp_comes_back(stamp: Stamp) -> None:
    assert parse(f"{stamp.marker}\ntext") == parse(f"{stamp.marker}\r\ntext") == stamp
    assert parse(f" {stamp.marker}") is None
    assert parse(note_marker(stamp)) is None


@given(STAMPS)
def test_a_stamp_is_one_hidden_comment(stamp: Stamp) -> None:
    page = cmarkgfm.github_flavored_markdown_to_html(f"{stamp.marker}\n### x", 1 << 17)
    assert page == f"{stamp.marker}\n<h3>x</h3>\n"


@given(st.text())
def test_any_text_is_a_stamp_or_none(text: str) -> None:
    assert parse(f"<!-- evenbench config={text}") is None


@given(STAMPS, STAMPS)
def test_only_a_table_of_the_same_commit_stays(old: Stamp, new: Stamp) -> None:
    stays = old.stays_for(new)
    assert not stays or (old.state == "done" and old.head == new.head and new.state != "done")
    assert not old.stays_for(old)


def test_every_state_has_its_words() -> None:
    assert set(RANK) == set(get_args(State))
    for state in RANK:
        if state != "done":
            outcome = Outcome(state)
            assert "evenbench: " in state_comment(outcome, HEAD, Links())
            assert check_text(outcome, Links()).summary


@pytest.mark.parametrize("state", ["failed", "nothing", "superseded", "queued"])
def test_foreign_words_stay_words(state: State) -> None:
    text = state_comment(Outcome(state, HOSTILE), HEAD, Links(run="javascript:x"))
    page = cmarkgfm.github_flavored_markdown_to_html(text, 1 << 17)
    assert page.count("<h3>") == 1
    assert "<!--" not in page
    assert "<a " not in page
    assert "</details>" not in page
    assert check_text(Outcome(state, HOSTILE), Links()).summary.count("<") == 0


def test_accepted_is_said_once() -> None:
    once = with_accepted("marker\n### x\n", "ada")
    assert once == "marker\n✅ Accepted by `ada`.\n\n### x\n"
    assert with_accepted(once, "ada") == once
    assert with_accepted(once, "bob") == "marker\n✅ Accepted by `bob`.\n\n### x\n"
    assert with_accepted(once, "") == "marker\n### x\n"


def test_an_accepted_check_is_a_success() -> None:
    text = accepted_check(check_text(Outcome("failed", "why"), Links()), "ada")
    assert (text.conclusion, text.title) == ("success", "accepted by ada: no result")
    assert text.summary == "✅ Accepted by `ada` with the label `evenbench: accepted`.\n\nwhy"
