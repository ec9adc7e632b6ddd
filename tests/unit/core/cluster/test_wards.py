"""Who looks after a task, and says that it is done until the value says so."""

from __future__ import annotations

from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import CompleteTask, Drain, Leave, SubmitJob
from kcontrol.core.cluster.model import JobState, Replica, TaskSpec
from kcontrol.core.cluster.wards import Ward, wards
from tests.unit.core.cluster.made import after, incarnation, joined, rejection
from tests.unit.core.cluster.test_agent import LIMITS, Alone


def of(replica: Replica, name: str) -> tuple[Ward, ...]:
    return wards(replica, Identity(name, incarnation(name), 1))


def submitted(replica: Replica, job: str, nodes: int, package: str = "p") -> Replica:
    tasks = (TaskSpec("nodes", nodes, nodes),)
    return after(replica, SubmitJob(job, f"{job}-{replica.offset}", replica.offset, package, tasks))


def test_a_task_has_one_warden_wherever_its_nodes_go() -> None:
    value = submitted(joined("abc"), "job", 2)
    revision = value.jobs["job"].revision
    placed = value.places()["job", "nodes", 0].agent
    assert [name for name in "abc" if of(value, name)] == [placed]
    assert of(value, placed) == (Ward("job", revision, "nodes"),)
    assert wards(value, Identity(placed, "another incarnation", 1)) == ()

    gone = after(value, Leave(placed, incarnation(placed), placed, incarnation(placed)))
    left = [name for name in "abc" if of(gone, name)]
    assert left == [gone.places()["job", "nodes", 0].agent]

    for name in "abc":
        value = after(value, Drain(name, True))
    assert not value.places()
    assert [name for name in "abc" if of(value, name)] == [value.members[0]], "of what has no place as well"


def test_what_is_done_is_completed_once_and_for_all() -> None:
    value = submitted(joined("a"), "job", 1)
    first = value.jobs["job"].revision
    value = submitted(value, "job", 1, "another package")
    newer = value.jobs["job"].revision
    assert rejection(value, CompleteTask("job", first, "nodes")) == "no such revision is active"
    value = after(value, CompleteTask("job", newer, "nodes"))
    assert value.jobs["job"].state is JobState.COMPLETED
    assert value.places() == {}
    assert of(value, "a") == ()
    assert rejection(value, CompleteTask("job", newer, "nodes")) == "no such revision is active"


def test_an_agent_says_that_a_task_is_done_until_the_value_says_it() -> None:
    alone = Alone()
    alone.join()
    alone.submit()
    [ward] = alone.machine.wards()
    alone.machine.task_done(ward)
    said = alone.machine.entry(alone.now_ms)
    assert said == CompleteTask("job", ward.revision, "nodes")
    alone.machine.not_appended(alone.now_ms, reads=True)
    alone.read()
    assert alone.speak() == said, "as nobody knows whether it was heard"
    assert alone.machine.wards() == ()
    alone.pass_ms(LIMITS.ask_again_ms)
    alone.read()
    alone.beat()
    assert alone.speak() is None


def test_what_was_done_for_an_earlier_revision_is_not_said() -> None:
    alone = Alone()
    alone.join()
    alone.submit()
    [ward] = alone.machine.wards()
    alone.machine.task_done(ward)
    alone.submit(nodes=2)
    assert alone.machine.wards() != (ward,)
    assert alone.speak() is None
