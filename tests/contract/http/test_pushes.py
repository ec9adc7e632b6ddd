"""Rows that are pushed over HTTP: what is taken, what is refused, and what is told of both."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace
from typing import Any

import httpx
import pyarrow as pa

from kcontrol.requests.push.bodies import AVRO, CSV, JSON, NDJSON, PARQUET
from tests.contract.http.conftest import MAX_PUSH_BYTES, MAX_QUEUED_ROWS, Api, Run
from tests.support.packed_rows import avro, parquet, repeated

PATH = "/v1/pipelines/p/ingress/in"
SCHEMA = "user STRING, amount INT"


async def begin(api: Api, **more: Any) -> None:
    await api.reaches(9, 9)
    api.told.reads(replace(api.told.input, value_format="json", value_schema=SCHEMA, **more))
    await api.told.begin()
    await api.seen(0)
    await api.all_read()


async def push(
    api: Api, body: str | bytes, kind: str = NDJSON, id_: str = "", **query: Any
) -> httpx.Response:
    headers = {"Content-Type": kind} | ({"Idempotency-Key": id_} if id_ else {})
    return await api.client.post(PATH, content=body, headers=headers, params=query)


def told(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["detail"])


def test_rows_are_pushed_once_however_often_the_request_comes(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await begin(api)
        first = await push(api, '{"user":"ann","amount":1}\n{"user":"bob"}\n', id_="a")
        assert first.status_code == 200, first.text
        body = first.json()
        assert (body["records"], body["replayed"], body["complete"], body["step"]) == (2, False, False, None)
        again = (await push(api, '{"user":"ann","amount":1}\n{"user":"bob"}\n', id_="a")).json()
        assert again == {**body, "replayed": True}
        same_rows = (await push(api, '[{"user":"ann","amount":1},{"user":"bob"}]', JSON, "a")).json()
        assert same_rows["replayed"] is True
        assert "other rows" in told(await push(api, '{"user":"eve"}', id_="a"), 409)
        columns = {"user": "string", "amount": ["null", "int"]}
        rows = [{"user": "ann", "amount": 1}, {"user": "bob", "amount": None}]
        packed = [
            (AVRO, avro(columns, rows)),
            (PARQUET, parquet({"user": ["ann", "bob"], "amount": pa.array([1, None])})),
        ]
        for kind, content in packed:
            taken = (await push(api, content, kind, "packed")).json()
            assert (taken["records"], taken["replayed"]) == (2, kind == PARQUET), taken
        other = (await push(api, 'user,amount\nann,1\n"b,ob",\n', CSV, "b")).json()
        assert other["token"] != body["token"]
        unnamed = [(await push(api, '{"user":"ann"}')).json()["request_id"] for _ in range(2)]
        assert unnamed[0] != unnamed[1]
        found = await api.get("/v1/pipelines/p/completion", token=body["token"])
        assert {each["state"] for each in found["records"]} == {"waiting"}

    run(scenario)


def test_the_answer_can_wait_for_the_step(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await begin(api)
        first = (await push(api, '{"user":"ann"}', id_="a")).json()
        _, partition, offset = first["token"].rsplit(":", 2)
        ends = [9, 9]
        ends[int(partition)] = int(offset) + 1
        await api.told.step(*ends)
        done = (await push(api, '{"user":"ann"}', id_="a", wait_s=20)).json()
        assert (done["replayed"], done["complete"], done["step"]) == (True, True, 1)

    run(scenario)


def test_what_is_wrong_is_named_and_nothing_is_written(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await begin(api)
        for body, kind, said in [
            ('{"user":"ann"}\n{"user":"bob","amount":"x"}', NDJSON, "row 2 field 'amount': 'x' is not INT"),
            ('{"user":"ann","amuont":1}', NDJSON, "did you mean 'amount'?"),
            ('{"user":', NDJSON, "row 1 is not JSON"),
            (b'{"user":"\xff"}', NDJSON, "is not UTF-8"),
            ("", NDJSON, "there are no rows"),
            ("[1]", JSON, "row 1 is 1, and must be an object"),
            ('{"user":"ann"}', JSON, "must be an array of rows"),
            (avro({"user": "string"}, [{"user": "ann"}])[:-1], AVRO, "the Avro file is damaged or cut off"),
            (
                avro({"user": "bytes"}, [{"user": b"ann"}]),
                AVRO,
                "field 'user': is of bytes, and must be of text",
            ),
            (parquet({"user": ["ann"], "amount": ["x"]}), PARQUET, "row 1 field 'amount': 'x' is not INT"),
            (parquet({"user": repeated("x" * 50_000, 20_000)}), PARQUET, "as JSON the rows have more than"),
            (b"PAR1", PARQUET, "it is cut off"),
            (b"", PARQUET, "the body is empty"),
            ("user,amount\nann\n", CSV, "row 1 (line 2) has 1 cells, the first line names 2"),
        ]:
            found = told(await push(api, body, kind, "wrong"), 422)
            assert said in found, found
        assert "must be one of application/x-ndjson" in told(await push(api, "x", "text/plain"), 415)
        assert "printable ASCII" in told(await push(api, "{}", id_="x" * 256), 422)
        assert "does not have; there are user, amount" in told(await push(api, "{}", key="nothing"), 422)
        assert f"{MAX_PUSH_BYTES} are allowed" in told(await push(api, b" " * (MAX_PUSH_BYTES + 1)), 413)
        # The id is free still: nothing came of it.
        fine = await push(api, '{"user":"ann"}', id_="wrong")
        assert fine.json()["replayed"] is False

    run(scenario)


def test_what_a_body_is_said_to_be_is_not_passed_over(run: Run) -> None:
    """These are bytes of ASCII, which as UTF-8 are another text."""

    async def scenario(api: Api) -> None:
        await begin(api)

        async def send(more: dict[str, str], body: bytes) -> httpx.Response:
            return await api.client.post(PATH, content=body, headers={"Content-Type": CSV} | more)

        for said in ("iso-2022-jp", "utf-7", '"ISO-8859-1"', "nothing", ""):
            kind = {"Content-Type": f"{CSV}; charset={said}"}
            refused = await send(kind, "user\nあ\n".encode("iso-2022-jp"))
            assert "rows must be in UTF-8" in told(refused, 415)
        packed = await send({"Content-Encoding": "gzip"}, gzip.compress(b"user\nann\n"))
        assert "said to be encoded by 'gzip', which is not taken" in told(packed, 415)
        for fine in ("utf-8", '"UTF-8"', "utf8", "US-ASCII"):
            kind = {
                "Content-Type": f"Text/CSV; header=present; charset={fine}",
                "Content-Encoding": "identity",
            }
            assert (await send(kind, b"user\nann\n")).status_code == 200

    run(scenario)


def test_only_inputs_of_json_and_raw_ones_take_rows(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await begin(api)
        assert (await api.client.post("/v1/pipelines/p/ingress/nothing", content="{}")).status_code == 404
        assert (await api.client.post("/v1/pipelines/q/ingress/in", content="{}")).status_code == 404
        avro = replace(api.told.spec, inputs=(replace(api.told.input, value_format="avro"),))
        await api.seen(await api.told.say(avro))
        assert "its values are avro" in told(await push(api, "{}"), 422)

    run(scenario)


def test_more_rows_than_may_wait_are_refused_until_there_is_room(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await begin(api)
        await api.seen(await api.told.received(9, 9))
        body = "user\n" + "ann\n" * MAX_QUEUED_ROWS
        full = await push(api, body, CSV, "a")
        assert f"rows wait and {MAX_QUEUED_ROWS} may; the pipeline has read none lately" in told(full, 429)
        assert (full.json()["type"], int(full.headers["Retry-After"])) == ("urn:kcontrol:problem:too-much", 5)
        await api.told.step(9, 9)
        await api.seen(0, 1)
        taken = await push(api, body, CSV, "a")
        assert (taken.status_code, taken.json()["replayed"]) == (200, False)
        # Of a request that is known nothing more would wait.
        again = await push(api, body, CSV, "a")
        assert (again.status_code, again.json()) == (200, {**taken.json(), "replayed": True})
        assert "other rows" in told(await push(api, "user\neve\n", CSV, "a"), 409)
        assert "rows wait and" in told(await push(api, body, CSV, "b"), 429)
        assert "in a request, and" in told(await push(api, body + "ann\n", CSV, "c"), 422)

    run(scenario)


def test_there_is_room_once_for_requests_that_come_at_the_same_time(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await begin(api)
        await api.told.step(9, 9)
        await api.seen(0, 1)
        body = "user\n" + "ann\n" * (MAX_QUEUED_ROWS // 2 + 1)
        answers = await asyncio.gather(*(push(api, body, CSV, f"at-once-{number}") for number in range(8)))
        assert sorted(answer.status_code for answer in answers) == [200, *[429] * 7]
        # What is committed counts no less than what is being written.
        assert "rows wait and" in told(await push(api, body, CSV, "later"), 429)

    run(scenario)
