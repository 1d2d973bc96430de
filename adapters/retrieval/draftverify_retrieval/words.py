"""Texts as the terms that a lexical index counts: words in lower case, without stop words, stemmed."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Sequence
from typing import Any

from draftverify import ConfigError
from draftverify.plugins import did_you_mean

_WORD = re.compile(r"\b\w\w+\b")


class TermExtractor:
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
        stop_words = (
            self.stopwords
            if self.stopwords is None or isinstance(self.stopwords, str)
            else sorted(self._stop)
        )
        return f"v1 {self.stemmer} {stop_words}"

    def terms(self, text: str) -> list[str]:
        """The terms of a text, in order, with repetitions; [] where it has none."""
        counted = [token for token in self.tokens(text) if token not in self._stop]
        stems = self._stems()
        return counted if stems is None else stems.stemWords(counted)

    def tokens(self, text: str) -> list[str]:
        """The words of a text, of which stop words are no terms."""
        return _WORD.findall(unicodedata.normalize("NFKC", text).lower())

    def term_of(self, token: str) -> str | None:
        """The term that a word counts as; None of a stop word."""
        if token in self._stop:
            return None
        stems = self._stems()
        return token if stems is None else stems.stemWords([token])[0]  # type: ignore[no-any-return]

    def _stems(self) -> Any:
        if self.stemmer is None:
            return None
        stemmer = getattr(self._local, "stemmer", None)
        if stemmer is None:
            import Stemmer

            algorithms = Stemmer.algorithms()
            if self.stemmer not in algorithms:
                hint = did_you_mean(self.stemmer, algorithms)
                raise ConfigError(f"there is no stemmer {self.stemmer!r}{hint}", path="stemmer")
            stemmer = self._local.stemmer = Stemmer.Stemmer(self.stemmer)
        return stemmer


def _stopwords(choice: str | Sequence[str] | None) -> Sequence[str]:
    if choice is None or not isinstance(choice, str):
        return choice or ()
    import bm25s.stopwords as lists

    names = {
        name.removeprefix("STOPWORDS_").lower(): name for name in dir(lists) if name.startswith("STOPWORDS_")
    }
    names["english"], names["english_plus"] = names.pop("en"), names.pop("en_plus")
    if choice not in names:
        raise ConfigError(
            f"there are no stop words for {choice!r}{did_you_mean(choice, names)} (or give a list of words)",
            path="stopwords",
        )
    listed: Sequence[str] = getattr(lists, names[choice])
    return listed
