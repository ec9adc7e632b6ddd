"""What changed between two values, in words: for people who read a cluster's log, and for whoever wants to
know what an entry did."""

from __future__ import annotations

from collections.abc import Iterator

from kcontrol.core.cluster.model import Agent, ClusterJob, Replica


def diff(before: Replica, after: Replica) -> tuple[str, ...]:
    """One line a change; none if nothing but the offset differs."""
    return (
        *_settings(before, after),
        *_agents(before, after),
        *_ring(before, after),
        *_jobs(before, after),
        *_places(before, after),
    )


def _settings(before: Replica, after: Replica) -> Iterator[str]:
    if before.level != after.level:
        yield f"level {before.level} -> {after.level}"
    if before.policy != after.policy:
        for name in before.policy.__slots__:
            was, is_ = getattr(before.policy, name), getattr(after.policy, name)
            if was != is_:
                yield f"{name} {was} -> {is_}"
    if before.proposed != after.proposed and after.proposed is not None:
        yield f"snapshot at {after.proposed.offset} proposed by {after.proposed.by}"
    if before.base != after.base:
        yield f"snapshot at {after.base.offset} confirmed"


def _agents(before: Replica, after: Replica) -> Iterator[str]:
    for name in sorted({*before.agents, *after.agents}):
        old, new = before.stage(name), after.stage(name)
        if old is not new:
            target = after.joining(name)
            whom = "" if target is None else f", will watch {target}"
            yield f"agent {name}: {old} -> {new}{whom}"
        was, is_ = before.agents.get(name), after.agents.get(name)
        if was is not None and is_ is not None and was != is_:
            yield f"agent {name}: {_changed(was, is_)}"
        if name in after.unable and name not in before.unable:
            yield f"agent {name}: a coordinator can't run there: {after.unable[name]}"


def _changed(was: Agent, is_: Agent) -> str:
    if was.incarnation != is_.incarnation:
        return "goes on as a new incarnation"
    if was.draining != is_.draining:
        return "drains" if is_.draining else "takes units again"
    return f"{is_.slots} slots, tags {','.join(is_.tags) or 'none'}"


def _ring(before: Replica, after: Replica) -> Iterator[str]:
    for name in sorted({*before.pairs, *after.pairs}):
        if before.pairs.get(name) != after.pairs.get(name) and name in after.pairs:
            yield f"{name} watches {after.pairs[name]}"


def _jobs(before: Replica, after: Replica) -> Iterator[str]:
    for name in sorted({*before.jobs, *after.jobs}):
        was, is_ = before.jobs.get(name), after.jobs.get(name)
        if was == is_:
            continue
        if is_ is None:
            yield f"job {name}: forgotten"
        elif was is None:
            yield f"job {name}: submitted"
        else:
            yield f"job {name}: {_changed_job(was, is_)}"


def _changed_job(was: ClusterJob, is_: ClusterJob) -> str:
    if was.state is not is_.state:
        return f"{was.state} -> {is_.state}" + (f": {is_.error}" if is_.error else "")
    if was.revision != is_.revision:
        return f"revision {is_.revision}"
    if was.tasks != is_.tasks:
        return f"{was.nodes} -> {is_.nodes} nodes, once its pipeline's layout has them"
    if was.kept != is_.kept:
        return f"its pipeline has {is_.kept or is_.nodes} nodes"
    if was.done != is_.done:
        return f"done: {', '.join(is_.done)}"
    if (was.bounds, was.percentage) != (is_.bounds, is_.percentage):
        return bounds_of(is_)
    if (was.standbys, was.error) != (is_.standbys, is_.error):
        return f"{is_.standbys} standbys" + (f": {is_.error}" if is_.error else "")
    return "submitted again, unchanged"


def bounds_of(job: ClusterJob) -> str:
    """In words."""
    if job.bounds is None:
        return f"{job.nodes} nodes, whatever the size of the cluster"
    most = "as many nodes as there is room for" if job.bounds.most is None else f"{job.bounds.most} nodes"
    share = f", {job.percentage} % of the cluster" if job.percentage else ""
    return f"from {job.bounds.least} to {most}{share}"


def _places(before: Replica, after: Replica) -> Iterator[str]:
    was, is_ = before.places(), after.places()
    for unit in sorted({*was, *is_}):
        old, new = was.get(unit), is_.get(unit)
        if old != new:
            job, task, index = unit
            there = "nowhere" if new is None else f"on {new.agent} (generation {new.generation})"
            here = "" if old is None else f", was on {old.agent}"
            if new is not None and new.stood_by:
                here += f", by the process of standby {new.standby}"
            yield f"{job}/{task}/{index} {there}{here}"
    if before.coordinators != after.coordinators:
        yield f"coordinators on {', '.join(place.agent for place in after.coordinators) or 'nobody'}"
