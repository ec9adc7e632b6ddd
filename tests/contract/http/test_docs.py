"""Every request that docs/rest.md shows works as it is written there."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

from tests.contract.http.conftest import Api, Run

PAGE = Path(__file__).parents[3] / "docs" / "rest.md"
ADDRESS = "localhost:8480"


def commands() -> list[list[str]]:
    """The arguments of every `curl` on the page whose answer has an end; a stream (-N) is for
    tests/integration/kafka/test_output_stream.py."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("curl ")]
    found = [shlex.split(line.partition(" > ")[0])[1:] for line in lines]
    return [arguments for arguments in found if "-sN" not in arguments]


def request(options: list[str]) -> tuple[str, str | None, int]:
    """Method, body, and the status that is to come."""
    match options:
        case ["-s"]:
            return "GET", None, 200
        case ["-s", "-L"]:
            return "GET", None, 307
        case ["-s", "-X", "POST"]:
            return "POST", None, 202
        case ["-s", "--json", body]:
            return "POST", body, 202
    raise AssertionError(f"the page has a request that this test does not know: {options}")


def test_every_request_on_the_page_is_answered(run: Run) -> None:
    found = commands()
    assert len(found) > 20

    async def scenario(api: Api) -> None:
        api.told.spec = replace(
            api.told.spec,
            layout=replace(api.told.spec.layout, shuffle_partitions=4),
            checkpoint=replace(api.told.spec.checkpoint, location="file:///checkpoints"),
        )
        await api.reaches(9, 2, topic="input")
        await api.told.begin("http://127.0.0.1:8481")
        await api.told.step(7, 1, wrote=(0, 3))
        await api.told.step(8, 2)
        await api.seen(await api.told.status(), steps=2)
        for arguments in found:
            *options, address = arguments
            assert address.startswith(ADDRESS), arguments
            method, body, status = request(options)
            if address.endswith("/reset"):
                status = 200  # It is made, or looked at, before it is answered.
            headers = {} if body is None else {"Content-Type": "application/json"}
            answer = await api.client.request(
                method, address.removeprefix(ADDRESS), content=body, headers=headers
            )
            assert answer.status_code == status, (arguments, answer.text)

    run(scenario)
