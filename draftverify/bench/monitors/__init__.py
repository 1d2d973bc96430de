"""Monitors: whether a pipeline is still what it was, which part of it changed, and what is done about it.

rates.py      one rate, a bet against "unchanged"
monitor.py    the rates of a pipeline, and its alarms
alarms.py     the pipeline that runs later tasks once an alarm is acted upon
watching.py   the monitors of a run, each told of its tasks in their order
"""

from draftverify.bench.monitors.alarms import MonitoredPipeline, after_alarm, task_shares
from draftverify.bench.monitors.monitor import RATES, Alarm, Monitor, RateReport, Shares, part_of, shares_of
from draftverify.bench.monitors.rates import RateMonitor

__all__ = [
    "RATES",
    "Alarm",
    "Monitor",
    "MonitoredPipeline",
    "RateMonitor",
    "Shares",
    "RateReport",
    "after_alarm",
    "part_of",
    "shares_of",
    "task_shares",
]
