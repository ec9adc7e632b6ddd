"""Rules of the cluster, each switched off: the search must then find what the rule is there for, on a shortest way."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.simulation.cluster.exhaustive.search import Found
from tests.simulation.cluster.exhaustive.worlds import BY_NAME
from tests.simulation.cluster.test_cluster_rules import RULES

BY_RULE = {str(rule): rule for rule in RULES}
WHERE = {
    "anybody_reports_the_dead": "a third joins and a host dies",
    "a_leave_ends_any_incarnation": "a node moves and an agent dies",
    "only_targets_of_prepared_joins_are_taken": "three join",
    "a_joiner_is_heard_only_from_its_notification_on": "two join and an agent dies",
    "a_death_leaves_joins_beside_it": "two join and an agent dies",
    "anybody_renews": "two join and an agent dies",
    "old_wishes_count": "a job comes and goes",
    "later_jobs_come_first": "two jobs and a death",
    "units_are_put_where_they_failed": "a node fails",
    "a_new_revision_is_left_to_old_processes": "a job is submitted anew",
    "what_an_overtaken_entry_put_here_stays": "a job is submitted anew",
    "nodes_go_by_the_newest_join_alone": "a node moves",
    "who_has_not_read_the_log_ends_what_it_finds": "an agent dies",
}


def _found(rule: str) -> Found | None:
    with ExitStack() as stack:
        search = BY_NAME[WHERE[rule]].search()
        for one in BY_RULE[rule].broken():
            stack.enter_context(one)
        return search.run().found


@pytest.mark.parametrize("rule", WHERE)
def test_the_search_finds_what_a_rule_is_for(rule: str) -> None:
    found = _found(rule)
    assert found is not None, f"nothing, in {WHERE[rule]}"
    print(f"{WHERE[rule]}:\n{found}")  # noqa: T201
    assert found.name in BY_RULE[rule].invariants
