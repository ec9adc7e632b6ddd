"""Who sees to it that the pipeline of a job that has ended is stopped."""

from __future__ import annotations

from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.end_wards import EndedJob, ended_jobs
from kcontrol.core.cluster.entries import CompleteTask, KillJob, SubmitJob, TaskFailed
from kcontrol.core.cluster.model import Replica, TaskSpec
from tests.unit.core.cluster.made import after, incarnation, joined


def submit(replica: Replica, job: str) -> SubmitJob:
    return SubmitJob(job, f"r{replica.offset}", replica.offset, "p", (TaskSpec("nodes", 1, 1),))


def who(name: str) -> Identity:
    return Identity(name, incarnation(name), 1)


def test_of_each_job_that_has_ended_however_that_is_one_member_tells_its_pipeline() -> None:
    replica = joined("abc")
    ends: list[EndedJob] = []
    for job in ("killed", "done", "failed"):
        replica = after(replica, submit(replica, job))
        place = replica.places()[job, "nodes", 0]
        failure = ("nodes", 0, place.generation, place.agent, incarnation(place.agent), "no file", True)
        ending = {
            "killed": KillJob(job, "k", replica.offset),
            "done": CompleteTask(job, replica.jobs[job].revision, "nodes"),
            "failed": TaskFailed(job, *failure),
        }[job]
        assert [one for name in "abc" for one in ended_jobs(replica, who(name))] == ends
        replica = after(replica, ending)
        ends.append(EndedJob(job, replica.founded_ms, replica.offset))
        ends.sort()
        assert sorted(one for name in "abc" for one in ended_jobs(replica, who(name))) == ends

    back = after(replica, submit(replica, "killed"))
    assert sorted(one for name in "abc" for one in ended_jobs(back, who(name))) == ends[:2], "it runs again"
    assert ended_jobs(replica, Identity("a", "a-0", 1)) == (), "an earlier incarnation tells nobody"
    assert ended_jobs(replica, who("d")) == ()
