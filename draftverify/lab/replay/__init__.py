"""Replay: what another rule, block, policy, stopping rule or budget would have made of a recorded task.

The session is the real one, and so are the rule, the policy and the stopping rule. The generator and the verifier
answer from the records: the drafts of a task in the places where they were drafted, and the checks of their items. One
that answers again for nothing (`traits.free`: from a cache of what was bought, say) is asked what the records do not
hold exactly. What nobody holds is a `Gap`, which names the task, the round and why; nothing is guessed.

A generator says with `drafts_from` what its drafts depend on (see `draftverify.protocols`). One that does not say is
served only where all that its context shows is as it was recorded, and only whole blocks. A verifier's word on an item
is taken to depend on the task, on the values accepted before it and on the items that it stands on, which is what the
conformance kit holds verifiers to.
"""

from draftverify.lab.replay.driven import Replay, Replayed
from draftverify.lab.replay.log import Gap
from draftverify.lab.replay.question import CHANGES, Change

__all__ = ["CHANGES", "Change", "Gap", "Replay", "Replayed"]
