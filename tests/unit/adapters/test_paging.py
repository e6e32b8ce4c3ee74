"""A list of the API is read to its end, and one without an end isn't read forever."""

from __future__ import annotations

import pytest

from upgrader.adapters.paging import MOST_OBJECTS, Paging
from upgrader.errors import ApiError

SERVER = "https://10.0.0.1:6443"


def page(token: str, objects: int = 500) -> dict[str, object]:
    """A page that another one follows."""
    return {"metadata": {"continue": token}, "items": [{}] * objects}


@pytest.mark.parametrize("objects", [0, 1, 500, 5000])
def test_a_list_whose_every_page_has_a_next_one_ends_with_an_error(objects: int) -> None:
    """However few objects a page has, none at all, or more than were asked for: no request comes after the limit."""
    paging = Paging(lambda: SERVER, "list pods ns", 500)

    def read() -> None:
        for number in range(MOST_OBJECTS // 500):
            paging.after(page(f"t{number}", objects))

    with pytest.raises(
        ApiError, match=f"at {SERVER} returned a list without an end.*after 1,000,000 objects .list pods ns"
    ) as caught:
        read()
    assert "Check that the kubeconfig" in caught.value.remedy


def test_a_list_may_have_an_empty_page_and_as_many_objects_as_the_limit() -> None:
    """An API server may filter out all objects of a page, and the last page of a large list is still read."""
    paging = Paging(lambda: SERVER, "list pods", 500)
    assert [paging.after(page(f"t{number}", 0)) for number in range(3)] == ["t0", "t1", "t2"]
    large = Paging(lambda: SERVER, "list pods", MOST_OBJECTS - 1)
    assert large.after(page("t1")) == "t1"
    assert large.after(page("")) == ""


def test_the_token_of_the_page_that_was_just_read_is_refused() -> None:
    """The next page would be the same one again."""
    paging = Paging(lambda: SERVER, "list pods", 500)
    paging.after(page("t1"))
    with pytest.raises(ApiError, match="it returned the same page twice"):
        paging.after(page("t1"))
