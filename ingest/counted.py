"""A number with the name of what it counts: one thing, or several."""

from __future__ import annotations


def counted(number: float, one: str, several: str = "") -> str:
    """A number of things with their name.

    Args:
        number: the number; decimals only for a fraction.
        one: the singular.
        several: the plural, if it is not the singular with an "s".

    >>> counted(1, "run"), counted(1215, "run"), counted(0.0, "run"), counted(0.5, "GPU")
    ('1 run', '1,215 runs', '0 runs', '0.5 GPUs')
    >>> counted(2, "summary", "summaries")
    '2 summaries'
    """
    return f"{number:,.10g} {one if number == 1 else several or one + 's'}"


class CountedNoun(int):
    """A number in a text of `str.format`: the words for one thing, or for several, are its format.

    >>> ["{count:row has|rows have}".format(count=CountedNoun(each)) for each in (1, 1200)]
    ['1 row has', '1,200 rows have']
    """

    def __format__(self, words: str) -> str:
        one, _, several = words.partition("|")
        return counted(int(self), one, several)
