"""A pipeline: parts that do not fit are refused when it is built; it nests; plain functions will do."""

from __future__ import annotations

import pytest

from draftverify import (
    Check,
    ConfigError,
    Context,
    ContractError,
    Explanation,
    Fixed,
    Pipeline,
    PipelineError,
    Proposal,
    Task,
    Verification,
    generator,
    retry,
    verifier,
)
from draftverify.rules import First
from draftverify.stats.block import Measured
from draftverify.traits import GeneratorTraits, RuleTraits, Traits, VerifierTraits

from .parts import Ballots, Blocks, Judge, Prefix, TakeFirst


def test_ten_lines_and_plain_functions():
    """A generator and a verifier may be plain functions."""
    roots = Pipeline(
        generator(lambda context, n: range(n)),
        verifier(lambda context, item: item * item == 49),
        TakeFirst(),
        block=10,
    )
    outcome = roots.run("the root of 49")
    assert outcome.value == 7


def test_a_verifier_function_may_abstain_fail_or_say_more():
    """None abstains, an exception is that item's error, a Check is taken as it is."""

    def judge(context, item):
        if item == "boom":
            raise ValueError("broken input")
        return {"yes": True, "no": False, "hm": None, "slow": Check("timeout")}[item]

    pipeline = Pipeline(
        generator(lambda c, n: ["no", "hm", "boom", "slow"]), verifier(judge), TakeFirst(), block=4
    )
    checks = pipeline.record("x").rounds[0].checks
    assert [check.verdict for check in checks] == ["reject", "abstain", "error", "timeout"]
    assert checks[2].feedback == "broken input"


def test_a_verifier_explains_differences_under_the_settings():
    """It is given the pipeline's settings; it need not explain."""

    class Explaining(Judge):
        def explain(self, task, expected, got, settings):
            return Explanation("rounding", f"{task.id}: {expected} or {got}, {settings}")

    made = [
        Pipeline(generator(lambda c, n: range(n), reads=["warm"]), each, TakeFirst(), settings={"warm": 1})
        for each in (Judge(bool), Explaining(bool))
    ]
    said = [each.explain(Task(id="a"), [1], [2]) for each in made]
    assert said == [None, Explanation("rounding", "a: [1] or [2], {'warm': 1}")]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("rounding", "must return an Explanation, not 'rounding'"),
        (Explanation("round", "so"), "'round' is no cause; one of rounding, bug, unexplained is"),
    ],
)
def test_an_explanation_is_read_before_it_is_believed(said, message):
    """Words alone, or a cause that nobody knows, are refused by name."""

    class Explaining(Judge):
        def explain(self, task, expected, got, settings):
            return said

    pipeline = Pipeline(generator(lambda c, n: range(n)), Explaining(bool), TakeFirst())
    with pytest.raises(ContractError, match=message):
        pipeline.explain(Task(id="a"), [1], [2])


def test_a_verifier_function_stops_early():
    """With `enough` items passed the function is not called again."""

    class Enough(TakeFirst):
        traits = RuleTraits(enough=1)

    called = []
    pipeline = Pipeline(
        generator(lambda c, n: range(n)), verifier(lambda c, i: called.append(i) or i == 1), Enough(), block=9
    )
    record = pipeline.record("x")
    assert called == [0, 1]
    assert record.outcome.tally.unchecked == 7
    assert record.outcome.tally.trials == 2


class Wants:
    """A rule with declared needs."""

    def __init__(self, **declared):
        self.traits = RuleTraits(**declared)

    def decide(self, context, proposal, verification, rng):
        raise AssertionError


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            (Blocks(), Judge(None), Wants(needs=frozenset({"target"}))),
            "needs target, which the verifier Judge does not provide",
        ),
        (
            (
                type("Iid", (Blocks,), {"traits": GeneratorTraits(laws={"iid"})})(),
                Judge(None),
                Wants(laws=frozenset({"given"})),
            ),
            "by the law iid",
        ),
        (
            (
                type("Chains", (Blocks,), {"traits": GeneratorTraits(shape="chain")})(),
                Judge(None),
                TakeFirst(),
            ),
            "proposes chains; the rule TakeFirst judges alternatives",
        ),
        (
            (
                type("A", (Blocks,), {"traits": GeneratorTraits(vocabulary="llama")})(),
                type("B", (Judge,), {"traits": VerifierTraits(vocabulary="gemma")})(None),
                TakeFirst(),
            ),
            "has the vocabulary llama",
        ),
        ((Blocks, Judge(None), TakeFirst()), "is the class Blocks; an instance is needed"),
        ((Blocks(), TakeFirst(), TakeFirst()), "has no method verify()"),
        ((Blocks(), bool, TakeFirst()), "is the class bool; an instance is needed"),
        (
            (Blocks(), abs, TakeFirst()),
            "no method verify(); verifier(function) makes a verifier of a function",
        ),
        ((generator(max, reads="warm"), Judge(None), TakeFirst()), "a set of names is needed, as {'warm'}"),
    ],
)
def test_parts_that_do_not_fit_are_refused_when_built(parts, words):
    """The message says what is missing, of whom, and from whom."""
    with pytest.raises(PipelineError, match=None) as caught:
        Pipeline(*parts)
    assert words in str(caught.value)


def test_the_measured_block_is_refused_for_trees():
    """It would take a larger tree for a longer chain; chains, and drafters that declare no shape, it takes."""
    makers = {
        shape: type("Shaped", (Blocks,), {"traits": GeneratorTraits(shape=shape)})()
        for shape in ("chain", "tree", None)
    }
    rule = Wants(laws=None)
    with pytest.raises(
        PipelineError, match="proposes trees; the block Measured is for alternatives, chains; give a number"
    ):
        Pipeline(makers["tree"], Judge(None), rule, block=Measured())
    for shape in ("chain", None):
        Pipeline(makers[shape], Judge(None), rule, block=Measured())


def test_settings_that_a_part_cannot_read_are_refused_when_built():
    """The part's own error comes before any task."""

    class Picky(Judge):
        traits = VerifierTraits(reads={"temperature"})

        def check_settings(self, settings):
            if settings["temperature"] < 0:
                raise ConfigError("it is below 0", path="settings.temperature")

    Pipeline(Blocks(), Picky(None), TakeFirst(), settings={"temperature": 0})
    with pytest.raises(ConfigError, match="temperature: it is below 0"):
        Pipeline(Blocks(), Picky(None), TakeFirst(), settings={"temperature": -1})


def test_a_setting_that_nobody_reads_is_refused_when_built():
    """Any part may be the one that reads it, functions too; the message has the nearest name that is read."""

    class Stops:
        traits = Traits(reads={"length"})

        def __call__(self, context, new):
            return None

    settings = {"spread": 4, "least": 2, "length": 3}
    draft = generator(lambda c, n: range(c.settings["spread"]), reads=["spread"])
    judge = verifier(lambda c, item: item >= c.settings["least"], reads=["least"])
    built = Pipeline(draft, judge, TakeFirst(), done=Stops(), block=9, settings=settings)
    assert built.traits.reads == {"spread", "least", "length"}
    assert built.run("x").value == 2
    with pytest.raises(ConfigError, match=r"settings\.sprad: no part .*'sprad'; did you mean spread\?"):
        Pipeline(draft, judge, TakeFirst(), settings={"sprad": 4})
    with pytest.raises(ConfigError, match="'warmth'; there are least, spread"):
        Pipeline(draft, judge, TakeFirst(), settings={"warmth": 4})
    with pytest.raises(ConfigError, match="none reads any"):
        Pipeline(generator(range, reads=()), verifier(bool, reads=()), TakeFirst(), settings={"warmth": 1})
    Pipeline(Blocks(), judge, TakeFirst(), settings={"warmth": 1})  # Blocks does not say what it reads


def test_a_pipeline_is_a_generator_and_its_records_nest():
    """Votes over inner pipelines: inner tasks have ids of their own and their rounds are kept."""
    inner = Pipeline(
        generator(lambda c, n: [int(c.draws.uniform(i) * 3) for i in range(n)]),
        verifier(lambda c, item: item > 0),
        TakeFirst(),
        policy=retry(20),
        block=2,
    )
    outer = Pipeline(inner, Judge(lambda c, i: "pass"), Ballots(), block=5, done=lambda c, new: 0)
    record = outer.record(Task(id="q"))
    assert record.outcome.value in (1, 2)
    nested = record.rounds[0].nested
    assert [r.task for r in nested] == [f"q/0.{i}" for i in range(5)]
    assert len({r.rounds[0].items for r in nested}) > 1


def test_an_inner_pipeline_that_fails_everywhere_is_a_failure_outside():
    """The outer policy hears of an error, not of an empty block."""
    inner = Pipeline(Blocks(RuntimeError("no model")), Judge(None), TakeFirst())
    outcome = Pipeline(inner, Judge(None), TakeFirst()).run("x")
    assert outcome.status == "failed"
    assert "no model" in outcome.failure.message


def test_each_task_has_one_of_the_pipelines_that_are_given():
    """Told before any of them runs."""
    pipeline = Pipeline(generator(lambda c, n: [1]), verifier(lambda c, i: True), First())
    with pytest.raises(PipelineError, match="there are 2 tasks and 1 pipelines"):
        pipeline.record(["x", "y"], pipelines=[pipeline])
    with pytest.raises(ConfigError, match="0 items or more, and not '3'"):
        Fixed("3")


@pytest.mark.parametrize("id", [5, None, "\ud800"])
def test_a_task_has_an_id_that_can_be_written_down(id):
    """Else its record could not be read again."""
    pipeline = Pipeline(generator(lambda c, n: [1]), verifier(lambda c, i: True), First())
    with pytest.raises(ConfigError, match="a text of whole characters is needed"):
        pipeline.run([Task(id=id)])


def test_one_task_is_streamed():
    """Many are no prompt that is a list."""
    pipeline = Pipeline(generator(lambda c, n: [1]), verifier(lambda c, i: True), First())
    assert [decision.emitted for decision in pipeline.stream("x")] == [(1,)]
    with pytest.raises(PipelineError, match="one task is streamed"):
        next(pipeline.stream(["x", "y"]))


def test_open_and_close_reach_every_part():
    """Fallback generators too."""
    log = []

    class Heavy(Blocks):
        def open(self):
            log.append("open")

        def close(self):
            log.append("close")

    from draftverify import fallback

    with Pipeline(Heavy(), Judge(None), TakeFirst(), policy=fallback(Heavy())):
        assert log == ["open", "open"]
    assert log == ["open", "open", "close", "close"]


def test_prepare_reads_the_task_before_the_first_draft():
    """A generator sees what the verifier made of the input."""

    class Preparing(Judge):
        def prepare(self, task):
            return Task(id=task.id, input={**task.input, "ids": [1, 2]})

    class Reading:
        def propose(self, context, n):
            return Proposal.alternatives((sum(context.task.input["ids"]),))

    assert Pipeline(Reading(), Preparing(lambda c, i: "pass"), TakeFirst()).run("x").value == 3


def test_a_task_that_cannot_be_prepared_fails_alone():
    """The reason is the verifier's exception."""

    class Refusing(Judge):
        def prepare(self, task):
            raise ValueError("prompt is empty")

    outcome = Pipeline(Blocks([1]), Refusing(None), TakeFirst()).run("x")
    assert (outcome.status, outcome.failure.message) == ("failed", "prompt is empty")


def test_chain_rule_refuses_alternatives_at_run_time():
    """A generator that declares no shape is held to what the rule can judge."""
    outcome = Pipeline(Blocks([1, 2]), Judge(lambda c, i: "pass"), Prefix(), block=2).run("x")
    assert "the rule judges chain" in outcome.failure.message


def test_an_error_of_opening_says_which_part_it_was():
    """A path inside the component is no use without the component."""

    class Closed(Blocks):
        def open(self):
            raise ConfigError("there is no such layer", path="layers")

    with pytest.raises(ConfigError, match=r"generator\.layers: there is no such layer"):
        Pipeline(Closed(), Judge(lambda context, item: "pass"), TakeFirst(), block=1).open()


def test_a_generator_looks_at_the_verifier_when_both_are_open():
    """Fallback generators too; what it refuses is an error at its place, before the first task."""
    opened = []

    class Loaded(Judge):
        def open(self):
            opened.append("verifier")

    class Guest(Blocks):
        def open(self):
            opened.append("generator")

        def check_verifier(self, verifier):
            assert isinstance(verifier, Loaded)
            assert opened == ["generator"] * (len(opened) - 1) + ["verifier"]
            raise ConfigError("the verifier lends no cache", path="own_cache")

    from draftverify import fallback

    judge = Loaded(lambda context, item: "pass")
    for pipeline in (
        Pipeline(Guest(), judge, TakeFirst()),
        Pipeline(Blocks([1]), judge, TakeFirst(), policy=fallback(Guest())),
    ):
        opened.clear()
        with pytest.raises(ConfigError, match=r"generator\.own_cache: the verifier lends no cache"):
            pipeline.open()


def test_a_verifier_looks_at_whoever_drafts_for_it_when_all_are_open():
    """Fallback generators too; what it refuses is an error at the generator's place, before the first task."""
    from draftverify import fallback

    class Narrow(Judge):
        opened = False

        def open(self):
            self.opened = True

        def check_generator(self, generator):
            assert self.opened
            if isinstance(generator, Wide):
                raise ConfigError("Wide drafts what is not read here")

    class Wide(Blocks):
        pass

    for pipeline in (
        Pipeline(Wide(), Narrow(lambda context, item: "pass"), TakeFirst()),
        Pipeline(Blocks([1]), Narrow(lambda context, item: "pass"), TakeFirst(), policy=fallback(Wide())),
    ):
        with pytest.raises(ConfigError, match=r"^generator: Wide drafts what is not read here"):
            pipeline.open()
    Pipeline(Blocks([1]), Narrow(lambda context, item: "pass"), TakeFirst()).open()


def test_a_verifier_may_bring_the_stopping_rule():
    """It ends the tasks of a pipeline that is given none, and gives way to one that is."""

    class Ending(Judge):
        def done(self, context, new):
            return new.index(4) if 4 in new else None

    judge = Ending(lambda context, item: "pass")
    blocks = [Proposal.chain(pair) for pair in ((1, 2), (3, 4), (5, 6))]
    assert Pipeline(Blocks(*blocks), judge, Prefix(), block=2).run("x").value == (1, 2, 3)
    until_five = lambda context, new: new.index(5) if 5 in new else None
    assert Pipeline(Blocks(*blocks), judge, Prefix(), block=2, done=until_five).run("x").value == (1, 2, 3, 4)


def test_a_generator_may_bring_the_block_size():
    """A number or a controller, made anew for each pipeline that is given none; without one it is 1."""

    class Brings(Blocks):
        made = staticmethod(lambda: 5)

        def default_block(self):
            return self.made()

    def block_of(generator, **given):
        return Pipeline(generator, Judge(None), TakeFirst(), **given).block

    assert [block_of(Blocks()).n, block_of(Brings()).n, block_of(Brings(), block=2).n] == [1, 5, 2]
    assert block_of(Brings(), block=0).n == 0
    measured = Brings()
    measured.made = lambda: Measured(at_most=4)
    one, other = block_of(measured), block_of(measured)
    assert one.at_most == other.at_most == 4
    assert one is not other
    wrong = Brings()
    wrong.made = lambda: "many"
    with pytest.raises(
        PipelineError, match=r"the block size that Brings brings \(default_block\(\)\) is 'many'"
    ):
        block_of(wrong)


def test_a_vocabulary_is_asked_for_only_to_be_compared():
    """Reading all words of a large one takes as long as several rounds."""

    class Large(Judge):
        def read(self):
            raise AssertionError("nobody needs it")

        @property
        def traits(self):
            return VerifierTraits(vocabulary=self.read)

    Pipeline(Blocks(), Large(None), TakeFirst())


class Opened:
    """Says what becomes of it."""

    traits = (GeneratorTraits(shape="alternatives"),)

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self.name = name
        self.log = log
        self.fails = fails

    def tell(self, what: str) -> None:
        self.log.append(f"{what} {self.name}")
        if what == self.fails:
            raise OSError(what)

    def open(self) -> None:
        self.tell("open")

    def close(self) -> None:
        self.tell("close")

    def propose(self, context: Context, n: int) -> Proposal:
        return Proposal.alternatives(())

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        return Verification()


def test_what_was_opened_is_closed_when_another_part_cannot_be():
    """A model that was loaded before the error does not stay; nor does one behind a part that cannot be closed."""
    log: list[str] = []
    with pytest.raises(OSError, match="open"):
        Pipeline(Opened("generator", log), Opened("verifier", log, "open"), First()).open()
    assert log == ["open generator", "open verifier", "close generator"]
    pipeline = Pipeline(Opened("generator", log, "close"), Opened("verifier", log), First())
    pipeline.open()
    log.clear()
    with pytest.raises(OSError, match="close"):
        pipeline.close()
    assert log == ["close generator", "close verifier"]
