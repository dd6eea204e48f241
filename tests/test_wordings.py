"""The page of errors has the sentences of the source, and a code means one kind of error."""

from collections import defaultdict

import pytest

from wordings import PAGE, page, wordings

pytestmark = pytest.mark.slow  # the source is read once, by whichever test comes first


def test_the_page_of_errors_is_that_of_the_source() -> None:
    assert PAGE.read_text() == page(), "python tests/wordings.py writes it anew"


def test_a_code_belongs_to_one_kind_of_error() -> None:
    kinds = defaultdict(set)
    for found in wordings():
        kinds[found.code].add(found.error)
    assert not {code: names for code, names in kinds.items() if len(names) > 1}
