"""How a chaos run is told: one line a round, and a table at the end; or JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict
from statistics import median

from tests.chaos.harness import Outcome, Round


def round_line(done: Round) -> str:
    """One line for people."""
    started = f"; started again: {', '.join(done.revived)}" if done.revived else ""
    back = (
        "hit again before it"
        if done.recovered_ms is None
        else f"back after {done.recovered_ms / 1000:>5.1f} s"
    )
    moment = f" ({done.moment})" if done.moment else ""
    return (
        f"round {done.number:>4}  {done.fault + moment:<42} {done.hit:>2} hit, out for {done.outage_ms / 1000:>5.1f} "
        f"s, {back:<19}, step {done.step}{started}"
    )


def round_json(done: Round) -> str:
    """The same for programs, on one line."""
    return json.dumps({"round": asdict(done)})


def outcome_json(outcome: Outcome) -> str:
    """The summary for programs, on one line."""
    facts = asdict(outcome) | {"recovery_ms": recoveries(outcome.rounds)}
    facts["rounds"] = len(outcome.rounds)
    return json.dumps({"outcome": facts})


def recoveries(rounds: list[Round]) -> dict[str, dict[str, float]]:
    """By fault: how often, and the median, least and greatest time from the end of the
    outage to a new commit, in ms.

    Only of rounds that were waited for; what was still down from the rounds before is in their times.
    Faults of several processes are one group each for kill and pause, everything apart.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for done in rounds:
        if done.recovered_ms is None:
            continue
        action, _, what = done.fault.partition(" ")
        times[f"{action} several" if " + " in what else done.fault].append(done.recovered_ms)
    return {
        fault: {"rounds": len(found), "median": median(found), "least": min(found), "greatest": max(found)}
        for fault, found in sorted(times.items())
    }


def summary(outcome: Outcome) -> str:
    """The table for people."""
    lines = [f"{'fault':<24}{'rounds':>7}{'median s':>10}{'least s':>9}{'greatest s':>12}"]
    for fault, of in recoveries(outcome.rounds).items():
        times = f"{of['median'] / 1000:>10.1f}{of['least'] / 1000:>9.1f}{of['greatest'] / 1000:>12.1f}"
        lines.append(f"{fault:<24}{of['rounds']:>7}{times}")
    followed = sum(done.recovered_ms is None for done in outcome.rounds)
    hit = f"{len(outcome.rounds)} rounds, {followed} of them hit again before a step was committed"
    did = f"{outcome.steps} steps, {outcome.checks} checks by the oracle, 0 violations"
    records = f"{outcome.records_in:,} records in, {outcome.records_out:,} out"
    lines += [
        f"seed {outcome.seed}: {hit}; {did}",
        f"{records}, and {outcome.hidden_records:,} of aborted attempts that nobody sees",
        f"bursts of input: {outcome.bursts}; processes that ended by themselves: "
        f"{outcome.ended_by_themselves or 'none'}",
    ]
    return "\n".join(lines)
