"""The page of errors has the sentences of the source, and a code means one kind of error."""

import re
from collections import defaultdict

import pytest

from wordings import PAGE, page, uncoded, wordings

pytestmark = pytest.mark.slow  # the source is read once, by whichever test comes first


def test_the_page_of_errors_is_that_of_the_source() -> None:
    assert PAGE.read_text() == page(), "python tests/wordings.py writes it anew"


def test_a_code_is_a_few_words() -> None:
    assert not [found for found in wordings() if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+){0,6}", found.code)]


def test_a_code_belongs_to_one_kind_of_error() -> None:
    kinds = defaultdict(set)
    for found in wordings():
        kinds[found.code].add(found.error)
    assert not {code: names for code, names in kinds.items() if len(names) > 1}


def test_no_error_of_a_general_class_is_without_a_code() -> None:
    assert not uncoded()


@pytest.mark.parametrize("tic", ["whoever", "nobody", "so many"])
def test_sentences_say_who_does_what(tic: str) -> None:
    assert not [found for found in wordings() if tic in found.sentence.lower()]


def test_most_codes_have_a_sentence_on_the_page() -> None:
    told = {found.code for found in wordings() if found.tells}
    assert len({found.code for found in wordings()} - told) < 10
    assert "not UTF-8" in page(), "a sentence that has a name in the source is read there"
