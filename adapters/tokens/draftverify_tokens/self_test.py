"""What a model must show before anything is decoded with it: that reading it block by block is reading it anew.

Speculative decoding reads six tokens at once, or three and three, or as the branches of a tree, beside other sequences
of other lengths, with keys and values that it keeps itself. Most decoder-only models of transformers can be read so;
some keep a state elsewhere, count places where they should look at positions, or want masks of their own. Nothing in a
config tells which, so each is tried: a few tokens are read in each of these ways and compared with the module's own
logits without a cache. It costs seven short passes, once per module, type and device, and again where another code runs
the module: other parts, a hook.

What six tokens cannot show is what changes further on in a text; see `draftverify_tokens.models.positions_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from draftverify import ConfigError, Proposal, Task
from draftverify_llm import evaluating
from draftverify_tokens.fingerprint import Fingerprint
from draftverify_tokens.states import StateReader, reader_of

Rows = list[tuple[Sequence[int], Any]]
"""Of one pass: logits [vocabulary], each with the tokens that they stand behind."""

BEYOND = {16: 12, 32: 400, 64: 400}
"""How far the root mean square of a row's differences may lie from 0, by the bits of the type, in the units of a
divergence, eps · max |logit| of the row. Rounding was seen to reach 2.5 of them in half precision and 25 in single
(SmolLM2-135M, and random models as sharp as any); models that read wrongly begin at 5 and at 1,400, and most of their
rows lie beyond 15 and 10,000."""

_KNOWN: WeakKeyDictionary[Any, list[tuple[Any, Fingerprint, str | None, str | None]]] = WeakKeyDictionary()
"""By the module: type and device, what it was, why it is refused, and why no trees can be read; the last of `KEPT`."""
KEPT = 8


def self_test(module: Any) -> str | None:
    """Whether a model can be read block by block.

    A row differs where the root mean square of its differences from the module's own logits is `BEYOND` rounding, with
    eps at least float32's, since norms and rotations are computed in float32 whatever the type. A pass fails where more
    than a third of its rows differ: a routing layer whose experts are nearly level may take another one in half
    precision, which spoils a row or two.

    Args:
        module: a transformers causal language model.

    Returns:
        Why no trees can be read, None where they can.

    Raises:
        ConfigError: not even chains can; it names the class and the reason.
    """
    weight = module.get_input_embeddings().weight
    verdicts = _KNOWN.setdefault(module, [])
    key, now = (weight.dtype, weight.device), Fingerprint(module)
    for place, fingerprint, refused, no_trees in verdicts:
        if place == key and now.same_code(fingerprint):
            if refused is not None:
                raise ConfigError(refused)
            return no_trees
    del verdicts[: -KEPT + 1]
    try:
        no_trees = _Trial(module).run()
    except ConfigError as error:
        # The words alone: an error's traceback holds the module.
        verdicts.append((key, now, str(error), None))
        raise
    verdicts.append((key, now, None, no_trees))
    return no_trees


class _Trial:
    """One module's test."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.name = type(module).__name__
        # Not compiled: what the model's own code does is asked here, and each shape would be compiled for its own.
        self.reader = reader_of(module, compiled=False)
        self.text = ordinary_tokens(module)
        self._rows: dict[tuple[int, ...], Any] = {}

    def run(self) -> str | None:
        """As `self_test`."""
        self._attempt("without a cache", self._alone)
        session = session_of(self.text[:1])
        if self._attempt("in blocks", lambda: self._first(session)):
            raise self._refusal("given positions and a mask, it computes other logits than without them")
        states = isinstance(self.reader, StateReader)
        if not states and not any(shelf.keys for shelf in self.reader.slots.shelves.values()):
            raise self._refusal(
                "it keeps a running state and no keys and values, and cannot go back to an earlier token"
            )
        if self._attempt("in blocks", lambda: self._second(session)):
            raise self._refusal(
                "what it has read before is not as it was: it keeps a running state, or counts places where "
                "positions are given"
            )
        if self._attempt("in a batch", self._batch):
            raise self._refusal(
                "its state after a first pass of a single token is another than after a longer one"
                if states
                else "beside a sequence of another length it computes other logits: it reads tokens by their place in "
                "the cache and not by their position"
            )
        if states:
            return self.reader.no_trees
        try:
            if self._attempt("as a tree", self._tree):
                return "it reads a tree's siblings by their place in the cache and not by their position"
        except ConfigError as error:
            return str(error)
        return None

    def _attempt(self, manner: str, passes: Callable[[], Iterator[Rows]]) -> bool:
        """Read in one way.

        Returns:
            Whether the rows of a pass differ from the module's own.

        Raises:
            ConfigError: the module raised something.
        """
        import torch

        try:
            return any(map(self._differ, list(passes())))
        except (ConfigError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            if isinstance(error, AttributeError) and error.name == "logits":
                raise self._refusal(
                    "it gives no logits; the model with its head is needed, as AutoModelForCausalLM loads it"
                ) from error
            lines = str(error).strip().splitlines()
            raise self._refusal(
                f"{manner} it fails with {type(error).__name__}{': ' + lines[0] if lines else ''}"
            ) from error

    def _refusal(self, why: str) -> ConfigError:
        return ConfigError(f"{self.name} cannot be decoded by drafting and verifying: {why}")

    def _differ(self, rows: Rows) -> bool:
        """Whether more than a third of a pass's rows lie beyond rounding."""
        import torch

        info, single = torch.finfo(self.reader.dtype), torch.finfo(torch.float32)
        unit = BEYOND[info.bits] * max(info.eps, single.eps)
        beyond = 0
        for path, row in rows:
            reference = self._own(path)
            apart = (row.double() - reference).square().mean().sqrt()
            beyond += not bool(apart <= unit * reference.abs().max())  # a nan is beyond, too
        return 3 * beyond > len(rows)

    def _own(self, path: Sequence[int]) -> Any:
        """The module's own logits [vocabulary] after a path, read without any cache."""
        import torch

        path = tuple(path)
        if path not in self._rows:
            ids = torch.tensor([path], device=self.reader.device)
            with torch.inference_mode(), evaluating(self.module.modules()):
                logits = self.module(input_ids=ids, use_cache=False).logits[0].double()
            self._rows.update({path[: i + 1]: row for i, row in enumerate(logits)})
        return self._rows[path]

    def _read(self, *turns: tuple[Any, Proposal]) -> Rows:
        """The rows of one pass, each with the tokens that it stands behind."""
        pairs: Rows = []
        contexts, proposals = zip(*turns, strict=True)
        reading = self.reader.read(contexts, proposals)
        for context, proposal, rows in zip(
            contexts, proposals, reading.logits.split(reading.counts), strict=True
        ):
            text = [*context.task.input["prompt_ids"], *context.accepted]
            paths = ([proposal.items[j] for j in proposal.path(i)] for i in range(len(proposal)))
            pairs += zip([text, *([*text, *path] for path in paths)], rows, strict=True)
        return pairs

    def _alone(self) -> Iterator[Rows]:
        """The module by itself, on the one text that everything else is read of: a single pass is enough."""
        own = self._own(self.text)
        if not bool(own.isfinite().all()):
            raise self._refusal("its logits are not finite numbers; its weights or its dtype are at fault")
        yield [(self.text, own)]

    def _first(self, session: Any) -> Iterator[Rows]:
        """Three tokens in one pass, the first of a text."""
        yield self._read((session, chain_of(self.text[1:3])))

    def _second(self, session: Any) -> Iterator[Rows]:
        """Three more of them."""
        yield self._read((later(session, self.text[1:4]), chain_of(self.text[4:6])))

    def _batch(self) -> Iterator[Rows]:
        """Six tokens in one pass beside one, and what follows: the six are one too many, and taken back."""
        text = self.text
        long, short = session_of(text[:5]), session_of(text[:1])
        self._read((long, chain_of(text[6:7])), (short, chain_of(())))
        yield self._read(
            (later(long, text[5:6]), chain_of(text[6:8])), (later(short, text[1:3]), chain_of(text[3:4]))
        )

    def _tree(self) -> Iterator[Rows]:
        """Four siblings, the last of which goes on: looked at are the tokens that stand further from the prompt than
        their position says. Then their path is accepted and read on."""
        text = self.text
        session = session_of(text[:2])
        items = (text[4], text[5], text[6], text[2], text[7], text[3], text[4])
        rows = self._read((session, Proposal.tree(items, (-1, -1, -1, -1, 3, 3, 5))))
        yield [rows[4], *rows[6:]]
        yield self._read((later(session, text[2:6]), chain_of(text[6:8])))


class _Session(NamedTuple):
    """What a reader looks at in a context."""

    task: Task
    accepted: Sequence[int]
    scratch: dict[Any, Any]


def session_of(prompt: Sequence[int]) -> Any:
    """A session that is new, as a reader sees it."""
    return _Session(Task(id="self-test", input={"prompt_ids": list(prompt)}), (), {})


def later(session: Any, accepted: Sequence[int]) -> Any:
    """The same session, with its cache, once so much was accepted."""
    return session._replace(accepted=tuple(accepted))


def chain_of(items: Sequence[int]) -> Proposal:
    """A block."""
    return Proposal.chain(tuple(items))


def ordinary_tokens(module: Any) -> list[int]:
    """Eight token ids from all over the vocabulary, none of which the config names as a special one."""
    config = module.config.get_text_config()
    special: set[Any] = set()
    for owner in (module.config, config):
        for name, value in vars(owner).items():
            if name.endswith(("token_id", "token_ids", "token_index")):
                special.update(value if isinstance(value, (list, tuple)) else [value])
    size: int = config.vocab_size
    ids: list[int] = []
    for place in range(1, 9):
        free = (place * size // 9 + step for step in range(size))
        ids.append(next((id for id in (i % size for i in free) if id not in special and id not in ids), 0))
    return ids
