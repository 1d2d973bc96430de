"""What passes between an index, a reader and a rule: passages, what was read in them, and who can find them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypedDict, runtime_checkable

from numpy.typing import NDArray

from draftverify import ContractError


class Passage(TypedDict, total=False):
    """A piece of a document, as generators of this adapter propose it.

    Keys:
        id: unique in the corpus, and the same as long as its document and the splitting are.
        text: what it says; the one key that every passage has.
        document: the id of the document that it stands in.
        start, end: its place there, in characters: `document_text[start:end] == text`.
        heading: the headings above it, joined with " › "; absent or "" where there is none.
        metadata: what is known of its document; absent where nothing is.
    """

    id: str
    text: str
    document: str
    start: int
    end: int
    heading: str
    metadata: Mapping[str, Any]


class PassageReading(Passage, total=False):
    """What a reader made of a passage: the passage, and the answer that it read there.

    A reader gives it as the `correction` of its check, so that rules that select keep it in the passage's place.

    Keys:
        answer: the answer, in the reader's words or the passage's.
        normalised: the answer as answers are compared (SQuAD's: lower case, no articles, no punctuation); votes are
            counted by it.
        answer_start, answer_end: where it stands in `text`, in characters; absent where it stands nowhere.
        quote: the words of `text` that were shown as its evidence, of a reader that asks for them.
    """

    answer: str
    normalised: str
    answer_start: int
    answer_end: int
    quote: str


@runtime_checkable
class Passages(Protocol):
    """A corpus of passages by row; rows are 0 … len − 1 and hold while it is open."""

    def __len__(self) -> int: ...

    def passage(self, row: int) -> Passage:
        """The passage of a row."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """Finds rows of a corpus for queries, many at once."""

    def search(self, queries: Sequence[str], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The k best rows of each query.

        Returns:
            rows int64 [n, k] and scores float32 [n, k], higher is better, the best first, equal ones by row (of several
            retrievers fused, as the first of them has them); where fewer than k were found, the rest is row −1 and
            score −inf.
        """
        ...


def indexed(passage: Passage) -> str:
    """What is indexed of a passage: its heading, where it has one, and its text below."""
    heading = passage.get("heading")
    return f"{heading}\n{passage['text']}" if heading else passage["text"]


def passage_of(item: Any) -> Passage:
    """An item as a passage: a text, or a mapping with `text`.

    Raises:
        ContractError: it is neither.
    """
    if isinstance(item, str):
        return Passage(text=item)
    text = item.get("text") if isinstance(item, Mapping) else None
    if not isinstance(text, str):
        raise ContractError(f"a passage is a text, or a mapping with `text`; the item is {item!r:.80}")
    return item  # type: ignore[return-value]
