"""The oracle must see what it is there for: a right run passes, and each way of being wrong is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.chaos.expected import InputRecord
from tests.chaos.murmur2 import partition_of
from tests.chaos.names import OUTPUTS
from tests.chaos.oracle import OutputRecord, check, differences


@dataclass
class History:
    """A log of steps with what is in the topics."""

    steps: list[dict[str, Any]]
    inputs: list[InputRecord]
    outputs: list[OutputRecord]

    def rules(self, *, complete: bool = True) -> set[str]:
        return {
            violation.rule for violation in check(self.steps, self.inputs, self.outputs, complete=complete)
        }


def order(offset: int, user: str, amount: int) -> InputRecord:
    return InputRecord(
        "orders",
        0,
        offset,
        user.encode(),
        json.dumps({"id": offset, "user": user, "amount": amount}).encode(),
    )


def total(offset: int, step: int, user: str, orders: int, amount: int, visits: int) -> OutputRecord:
    value = json.dumps({"user": user, "orders": orders, "amount": amount, "visits": visits}).encode()
    return OutputRecord(
        "totals", partition_of(user.encode(), OUTPUTS["totals"]), offset, user.encode(), value, step
    )


def large(offset: int, step: int, number: int, user: str, amount: int) -> OutputRecord:
    value = json.dumps({"id": number, "user": user, "amount": amount, "at_ms": 1_000 * step}).encode()
    return OutputRecord("large", 0, offset, None, value, step)


def boundary(
    step: int, orders: tuple[int, int], visits: tuple[int, int], counts: tuple[int, int]
) -> dict[str, Any]:
    """counts: visible records of both inputs. Outputs are filled in by `history`."""
    return {
        "step": step,
        "now_ms": 1_000 * step,
        "token": {
            "claim_epoch": 1,
            "attempt": 1,
            "producer_id": 7,
            "producer_epoch": step,
            "incarnations": [3],
        },
        "inputs": [
            {"topic": "orders", "partition": 0, "from": orders[0], "to": orders[1], "records": counts[0]},
            {"topic": "visits", "partition": 2, "from": visits[0], "to": visits[1], "records": counts[1]},
        ],
        "outputs": [],
    }


def history() -> History:
    """Two steps. Offset 2 of orders is a transaction's marker; offset 2 of large is an
    aborted record that nobody sees."""
    inputs = [
        *(order(0, "ann", 60), order(1, "bob", 10), order(3, "ann", 70)),
        *(InputRecord("visits", 2, offset, b"ann", b"") for offset in (0, 1)),
    ]
    outputs = [
        *(total(0, 1, "ann", 1, 60, 1), total(0, 1, "bob", 1, 10, 0), large(0, 1, 0, "ann", 60)),
        *(total(2, 2, "ann", 2, 130, 2), large(3, 2, 3, "ann", 70)),
    ]
    steps = [boundary(1, (0, 3), (0, 1), (2, 1)), boundary(2, (3, 4), (1, 2), (1, 1))]
    for record in outputs:
        steps[(record.step or 0) - 1]["outputs"].append(
            {
                "topic": record.topic,
                "partition": record.partition,
                "from": record.offset,
                "to": record.offset + 1,
                "records": 1,
            }
        )
    return History(steps, inputs, outputs)


def test_ann_and_bob_have_a_partition_each() -> None:
    assert partition_of(b"ann", OUTPUTS["totals"]) != partition_of(b"bob", OUTPUTS["totals"])


def test_a_right_run_passes() -> None:
    right = history()
    assert check(right.steps, right.inputs, right.outputs, complete=True) == []


def lose_an_output(wrong: History) -> None:
    """As if the record had never been written, and the boundary said so."""
    lost = wrong.outputs.pop()
    wrong.steps[1]["outputs"] = [piece for piece in wrong.steps[1]["outputs"] if piece["topic"] != lost.topic]


def duplicate_an_output(wrong: History) -> None:
    """As if a task had run twice, with a boundary that counts both."""
    wrong.outputs.append(replace(wrong.outputs[-1], offset=4))
    wrong.steps[1]["outputs"][-1] |= {"to": 5, "records": 2}


def alter_an_output(wrong: History) -> None:
    value = json.loads(wrong.outputs[3].value or b"") | {"amount": 131}
    wrong.outputs[3] = replace(wrong.outputs[3], value=json.dumps(value).encode())


def stop_the_clock_of_a_row(wrong: History) -> None:
    """As if current_timestamp() had been the machine's."""
    value = json.loads(wrong.outputs[-1].value or b"") | {"at_ms": 2_001}
    wrong.outputs[-1] = replace(wrong.outputs[-1], value=json.dumps(value).encode())


def tear_a_step(wrong: History) -> None:
    """The boundary is there, one of its records is not."""
    wrong.outputs.pop()


def show_an_aborted_record(wrong: History) -> None:
    """A record of an attempt at step 2 that was not committed."""
    wrong.outputs.append(replace(wrong.outputs[-1], offset=2))


def show_a_step_without_boundary(wrong: History) -> None:
    wrong.outputs.append(replace(wrong.outputs[-1], offset=9, step=3))


def write_without_header(wrong: History) -> None:
    wrong.outputs[-1] = replace(wrong.outputs[-1], step=None)


def misplace_a_key(wrong: History) -> None:
    where = (wrong.outputs[3].partition + 1) % OUTPUTS["totals"]
    wrong.outputs[3] = replace(wrong.outputs[3], partition=where)
    wrong.steps[1]["outputs"][0]["partition"] = where


def drop_a_step(wrong: History) -> None:
    del wrong.steps[0]


def repeat_a_step(wrong: History) -> None:
    wrong.steps.append(copy.deepcopy(wrong.steps[1]))


def skip_input(wrong: History) -> None:
    wrong.steps[1]["inputs"][1]["from"] = 2


def read_input_twice(wrong: History) -> None:
    wrong.steps[1]["inputs"][1]["from"] = 0


def forget_the_last_input(wrong: History) -> None:
    wrong.inputs.append(order(4, "bob", 20))


def skip_where_no_step_ended(wrong: History) -> None:
    wrong.steps[1]["skipped_ranges"] = [{"topic": "visits", "partition": 2, "from": 0, "to": 2}]


def read_a_paused_input(wrong: History) -> None:
    wrong.steps[1]["paused_inputs"] = ["visits"]
    wrong.steps[1]["inputs"][1]["input"] = "visits"


def miscount_input(wrong: History) -> None:
    wrong.steps[0]["inputs"][0]["records"] = 3


def miscount_output(wrong: History) -> None:
    wrong.steps[0]["outputs"][0]["records"] = 2


def reuse_a_token(wrong: History) -> None:
    wrong.steps[1]["token"] = wrong.steps[0]["token"]


def turn_back_time(wrong: History) -> None:
    wrong.steps[1]["now_ms"] = wrong.steps[0]["now_ms"]


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lose_an_output, "output lost"),
        (duplicate_an_output, "output too many"),
        (alter_an_output, "output too many"),
        (stop_the_clock_of_a_row, "output lost"),
        (tear_a_step, "torn"),
        (show_an_aborted_record, "torn"),
        (show_a_step_without_boundary, "stray output"),
        (write_without_header, "no step header"),
        (misplace_a_key, "wrong partition"),
        (drop_a_step, "not contiguous"),
        (repeat_a_step, "not contiguous"),
        (skip_input, "input lost"),
        (read_input_twice, "input read twice"),
        (forget_the_last_input, "input lost"),
        (skip_where_no_step_ended, "skipped wrongly"),
        (read_a_paused_input, "paused input read"),
        (miscount_input, "miscounted input"),
        (miscount_output, "miscounted output"),
        (reuse_a_token, "token used twice"),
        (turn_back_time, "time stands still"),
    ],
)
def test_each_damage_is_named(damage: Callable[[History], None], rule: str) -> None:
    wrong = history()
    damage(wrong)
    assert rule in wrong.rules()


def test_a_recorded_skip_and_a_partition_that_was_added_are_no_violation() -> None:
    right = history()
    right.inputs.append(InputRecord("visits", 9, 1, b"bob", b""))
    right.steps[1]["skipped_ranges"] = [{"topic": "visits", "partition": 9, "from": 0, "to": 2}]
    right.steps[1]["inputs"].append({"topic": "visits", "partition": 9, "from": 2, "to": 2, "records": 0})
    assert check(right.steps, right.inputs, right.outputs, complete=True) == []
    right.steps[1]["skipped_ranges"] = []
    assert right.rules() == {"input lost"}


def test_while_it_runs_later_steps_are_nobodys_fault() -> None:
    running = history()
    running.steps.pop()
    assert running.rules(complete=False) == set()
    assert running.rules(complete=True) == {"input lost", "stray output"}


def in_other_steps() -> list[OutputRecord]:
    """The same rows, as a pipeline writes them whose steps are others."""
    moved = [replace(each, step=1, offset=each.offset + 7) for each in history().outputs]
    return [replace(each, partition=1) if each.topic == "large" else each for each in moved]


def test_two_pipelines_may_write_the_same_rows_in_other_steps() -> None:
    assert differences(history().outputs, in_other_steps()) == []


FIRST, OTHER = "in the first alone", "in the other alone"


@pytest.mark.parametrize(
    ("damage", "rules"),
    [
        (lambda rows: rows[:-1], [FIRST]),
        (lambda rows: [*rows, rows[-1]], [OTHER]),
        (lambda rows: [*rows[:-1], replace(rows[-1], value=(rows[-1].value or b"") + b" ")], [FIRST, OTHER]),
        (lambda rows: [replace(rows[0], partition=rows[0].partition + 1), *rows[1:]], [FIRST, OTHER]),
        (lambda rows: [*rows[:-1], replace(rows[-1], key=b"")], [FIRST, OTHER]),
    ],
    ids=["a row less", "a row twice", "a byte", "another partition of a key", "a key of nothing"],
)
def test_what_two_pipelines_write_differently_is_named(
    damage: Callable[[list[OutputRecord]], list[OutputRecord]], rules: list[str]
) -> None:
    found = differences(history().outputs, damage(in_other_steps()))
    assert [violation.rule for violation in found] == rules


@pytest.mark.parametrize(
    ("key", "hash_of_java"),
    [
        (b"21", -973_932_308),
        (b"foobar", -790_332_482),
        (b"abc", 479_470_107),
        (b"a-little-bit-long-string", -985_981_536),
    ],
)
def test_the_partitioner_is_kafkas(key: bytes, hash_of_java: int) -> None:
    """Vectors of Kafka's own UtilsTest."""
    assert partition_of(key, 1_000) == (hash_of_java & 0x7FFFFFFF) % 1_000
