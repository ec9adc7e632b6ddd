"""Writes the tables of rights into docs/security.md from the table in the code: `python -m docs.make_rights`.

tests/unit/kafka/test_roles.py fails when the page is not current.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kcontrol.adapters.kafka.admin.region_roles import REGION_ROLES, RegionRole, member_needs, region_needs
from kcontrol.adapters.kafka.admin.roles import ROLES, Role, RoleRight, Topics, needs
from kcontrol.wire.names import Names

PAGE = Path(__file__).parent / "security.md"
_BEGIN, _END = "<!-- rights: made by `python -m docs.make_rights` -->\n", "<!-- /rights -->"


def tables() -> str:
    """A table for each role."""
    topics = Topics(("input",), ("output",), exchanges=True)
    of_pipelines = (_table(role, ROLES[role], needs(role, Names(), "pipeline", topics)) for role in Role)
    of_regions = (
        _table(
            role,
            REGION_ROLES[role],
            (*region_needs(role, Names(), "region"), *member_needs(role, Names(), "pipeline", topics)),
        )
        for role in RegionRole
    )
    return "\n".join((*of_pipelines, *of_regions))


def _table(role: Role | RegionRole, what: str, found: Sequence[RoleRight]) -> str:
    rows = "".join(_row(need) for need in found)
    return (
        f"### {role.value.replace('-', ' ').capitalize()}\n\n{what}\n\n| on | operations | what for "
        f"|\n|---|---|---|\n{rows}"
    )


def _row(need: RoleRight) -> str:
    operations = ", ".join(operation.value for operation in need.right.operations)
    why = f"optional: {need.why}" if need.optional else need.why
    return f"| {need.where} | {operations} | {why} |\n"


def page(text: str) -> str:
    """The page with its tables made again."""
    before, _, rest = text.partition(_BEGIN)
    return f"{before}{_BEGIN}\n{tables()}\n{_END}{rest.partition(_END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
