"""Texts as the terms that a lexical index counts: words in lower case, without stop words, stemmed."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from draftverify import ConfigError

__all__ = ["Words"]

_WORD = re.compile(r"\b\w\w+\b")


class Words:
    """Makes terms of texts: runs of two and more letters, digits and underscores of the text in NFKC and lower case.

    Args:
        stemmer: a Snowball algorithm, as "english"; None for none.
        stopwords: a language of bm25s's lists, as "english"; or the words themselves; None for none.
    """

    def __init__(self, stemmer: str | None, stopwords: str | Sequence[str] | None) -> None:
        self.stemmer = stemmer
        self.stopwords = stopwords
        self._stop = frozenset(_stopwords(stopwords))
        # A PyStemmer object is for one thread.
        self._local = threading.local()
        self._stems()

    @property
    def identity(self) -> str:
        """The same for those that make the same terms."""
        words = (
            self.stopwords
            if self.stopwords is None or isinstance(self.stopwords, str)
            else sorted(self._stop)
        )
        return f"v1 {self.stemmer} {words}"

    def terms(self, text: str) -> list[str]:
        """The terms of a text, in order, with repetitions; [] where it has none."""
        found = _WORD.findall(unicodedata.normalize("NFKC", text).lower())
        left = [word for word in found if word not in self._stop] if self._stop else found
        stems = self._stems()
        return left if stems is None else stems.stemWords(left)

    def _stems(self) -> Any:
        if self.stemmer is None:
            return None
        made = getattr(self._local, "stemmer", None)
        if made is None:
            import Stemmer

            known = Stemmer.algorithms()
            if self.stemmer not in known:
                near = get_close_matches(self.stemmer, known, n=1)
                raise ConfigError(
                    f"there is no stemmer {self.stemmer!r}"
                    + (f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"),
                    path="stemmer",
                )
            made = self._local.stemmer = Stemmer.Stemmer(self.stemmer)
        return made


def _stopwords(given: str | Sequence[str] | None) -> Sequence[str]:
    if given is None or not isinstance(given, str):
        return given or ()
    import bm25s.stopwords as lists

    names = {
        name.removeprefix("STOPWORDS_").lower(): name for name in dir(lists) if name.startswith("STOPWORDS_")
    }
    names["english"], names["english_plus"] = names.pop("en"), names.pop("en_plus")
    if given not in names:
        raise ConfigError(
            f"there are no stop words for {given!r}; there are {', '.join(sorted(names))}, or give a list of words",
            path="stopwords",
        )
    found: Sequence[str] = getattr(lists, names[given])
    return found
