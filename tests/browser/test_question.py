"""A question in SQL is asked of the server, and its rows are shown with the step that they are as of."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Request, expect

from kcontrol.requests.table_questions import StatementRefusedError, TableAnswer, TableColumn, TableQuestion
from tests.browser.conftest import Console, Run

pytestmark = pytest.mark.browser


def test_a_statement_is_asked_and_its_rows_are_shown_as_of_a_step(run: Run) -> None:
    async def scenario(console: Console) -> None:
        asked: list[TableQuestion] = []

        async def answer(question: TableQuestion) -> TableAnswer:
            asked.append(question)
            if question.sql == "DROP TABLE totals":
                raise StatementRefusedError("only one statement that reads can be asked")
            columns = [TableColumn("name", "string"), TableColumn("n", "bigint")]
            return TableAnswer("clicks", 7, 1_000, columns, [["<b>a</b>", 5], [None, 6]], True, ["a note"])

        await console.server.end()
        console.server.ask = answer
        await console.server.begin()
        await console.open()
        page = console.page
        await page.get_by_text("Ask in SQL").click()
        await page.get_by_label("Statement").fill("SELECT name, n FROM totals")
        await page.get_by_label("As of step").fill("7")
        await console.button("Ask").click()
        await expect(page.get_by_text("2 rows, as of step 7")).to_contain_text("there are more. a note")
        table = page.get_by_role("table", name="Answer")
        await expect(table).to_contain_text("<b>a</b>")
        await expect(table.get_by_role("columnheader")).to_have_text(["name", "n"])
        assert asked == [TableQuestion("clicks", "SELECT name, n FROM totals", 7, 200, None)]

        await page.get_by_label("Statement").fill("DROP TABLE totals")
        await console.button("Ask").click()
        await expect(page.get_by_text("only one statement that reads can be asked")).to_be_visible()
        await expect(table).to_have_count(0)

    run(scenario)


def test_without_a_query_server_the_page_says_what_to_start(run: Run) -> None:
    async def scenario(console: Console) -> None:
        sent: list[str] = []

        def note(request: Request) -> None:
            if request.url.endswith("/query"):
                sent.append(request.post_data or "")

        console.context.on("request", note)
        await console.open()
        await console.page.get_by_text("Ask in SQL").click()
        await console.page.get_by_label("Statement").fill("SHOW TABLES")
        await console.button("Ask").click()
        await expect(console.page.get_by_text("this server knows of no query server")).to_be_visible()
        assert json.loads(sent[0]) == {"sql": "SHOW TABLES", "step": None, "limit": 200}

    run(scenario)
