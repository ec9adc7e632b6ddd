"""The bench's table of questions."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench.figures import whole
from bench.questions.measure import NODES, QuestionCost


def show_questions(console: Console, cost: QuestionCost | None) -> None:
    """How long answers take, and what steps lose meanwhile."""
    if cost is None:
        return
    table = Table(
        *(
            "ms a step without",
            "with questions",
            "times as long",
            "answer, a step asked before, ms",
            "a new step, ms",
        ),
        title=f"a question about the state of {NODES} nodes every {cost.every_s:g} s (median, least to greatest)",
    )
    table.add_row(
        whole(cost.without),
        whole(cost.with_),
        f"{cost.times_as_long:.2f}",
        whole(cost.known_ms),
        whole(cost.new_ms),
    )
    console.print(table)
