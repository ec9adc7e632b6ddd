"""What /metrics says of rows that are pushed: what was taken, what was not, and why."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kcontrol.requests.push.bodies import CSV
from tests.contract.http.conftest import MAX_PUSH_BYTES, MAX_QUEUED_ROWS, REMEMBERED, Api, Run
from tests.contract.http.test_metrics import samples
from tests.contract.http.test_pushes import PATH, begin, push

TWO_ROWS = '{"user":"ann"}\n{"user":"bob"}\n'
TOO_LARGE = b" " * (MAX_PUSH_BYTES + 1)


async def pushes(api: Api) -> dict[str, float]:
    """By name without its beginning and end, and by reason what was refused."""
    found: dict[str, float] = {}
    for (name, labels), number in (await samples(api)).items():
        if name.startswith(("kcontrol_pushes_", "kcontrol_pushed_")):
            told = dict(labels)
            reason = told.pop("reason", "")
            assert told in ({}, {"pipeline": "p", "input": "in"}), told
            short = name.removeprefix("kcontrol_").removesuffix("_total")
            found[f"{short} {reason}" if reason else short] = number
    return found


def test_what_is_taken_is_counted_once(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await begin(api)
        assert await pushes(api) == {"pushes_remembered": 0, "pushes_remembered_limit": REMEMBERED}
        for _ in range(2):
            assert (await push(api, TWO_ROWS, id_="a")).status_code == 200
        assert (await push(api, '{"user":"kim"}', id_="b", key="user")).status_code == 200
        assert await pushes(api) == {
            "pushes": 2,
            "pushed_rows": 3,
            "pushed_bytes": 3 * len('{"user":"ann"}') + len("kim"),
            "pushes_replayed": 1,
            "pushes_remembered": 2,
            "pushes_remembered_limit": REMEMBERED,
        }

    run(scenario)


def test_what_is_refused_is_counted_by_its_reason(run: Run) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(2):
            yield TOO_LARGE[: MAX_PUSH_BYTES // 2 + 1]

    async def scenario(api: Api) -> None:
        await begin(api)
        assert (await push(api, TWO_ROWS, id_="a")).status_code == 200
        for status, answer in [
            (422, await push(api, '{"amount":"x"}', id_="b")),
            (422, await push(api, "{", id_="b")),
            (409, await push(api, '{"user":"eve"}', id_="a")),
            (415, await push(api, "x", "text/plain")),
            (422, await push(api, TWO_ROWS, id_="x" * 256)),
            (422, await push(api, TWO_ROWS, key="nothing")),
            (413, await push(api, TOO_LARGE)),
            (413, await api.client.post(PATH, content=pieces())),
            (422, await push(api, "user\n" + "ann\n" * (MAX_QUEUED_ROWS + 1), CSV)),
        ]:
            assert answer.status_code == status, answer.text
        for number in range(REMEMBERED - 1):
            assert (await push(api, '{"user":"ann"}', id_=f"n{number}")).status_code == 200
        assert (await push(api, '{"user":"ann"}', id_="more")).status_code == 429
        await api.seen(await api.told.received(9, 9))
        assert (await push(api, "user\n" + "ann\n" * MAX_QUEUED_ROWS, CSV)).status_code == 429
        found = await pushes(api)
        assert {each: number for each, number in found.items() if " " in each} == {
            "pushes_refused rows": 2,
            "pushes_refused other_rows": 1,
            "pushes_refused request": 3,
            "pushes_refused size": 3,
            "pushes_refused remembered": 1,
            "pushes_refused queue": 1,
        }
        assert (found["pushes"], found["pushes_remembered"]) == (REMEMBERED, REMEMBERED)
        assert "pushes_failed" not in found

    run(scenario)


def test_names_that_a_client_makes_up_are_no_labels(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await begin(api)
        before = await pushes(api)
        for path in ("/v1/pipelines/made-up/ingress/in", "/v1/pipelines/p/ingress/made-up"):
            for content in (b"{}", TOO_LARGE):
                assert (await api.client.post(path, content=content)).status_code in (404, 413)
        assert await pushes(api) == before

    run(scenario)


def test_what_kafka_does_not_take_is_a_failure(run_on_kafka: Run) -> None:
    async def scenario(api: Api) -> None:
        await begin(api, topic_id="AAAAAAAAAAAAAAAAAAAAAA")
        assert "was recreated" in (await push(api, TWO_ROWS)).json()["detail"]
        found = await pushes(api)
        assert found == {"pushes_failed": 1, "pushes_remembered": 0, "pushes_remembered_limit": REMEMBERED}

    run_on_kafka(scenario)
