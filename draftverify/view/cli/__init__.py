"""The commands that show runs in a browser, or take answers to what waits for a person."""

from draftverify.bench.cli.commands import Command

__all__ = ["REPORT", "REVIEW", "VIEW"]

REPORT = Command("draftverify.view.cli.report:report", "Write a run's report as one HTML file.")
REVIEW = Command("draftverify.view.cli.review:review", "Answer the tasks that wait for a person.")
VIEW = Command("draftverify.view.cli.view:view", "Show runs in the browser, as they go on.")
