"""What no operation asked for is refused, and named."""

from __future__ import annotations

import pytest

from tests.contract.http.conftest import Api, Run

P = "/v1/pipelines/p"


@pytest.mark.parametrize(
    ("path", "name", "what"),
    [
        (
            "/completion?token=input:0:5&token=input:1:0",
            "query.token",
            "given 2 times: give it once; several completion tokens",
        ),
        ("/completion?tokn=input:0:5", "query.tokn", "did you mean 'token'?"),
        ("/steps?limit=2&limit=2", "query.limit", "given 2 times"),
        ("/steps?form=3", "query.form", "did you mean 'from'?"),
        ("?min_control_offset=1&verbose=1", "query.verbose", "there are min_control_offset"),
    ],
)
def test_a_parameter_that_is_unknown_or_repeated_is_refused(
    run: Run, path: str, name: str, what: str
) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        answer = await api.client.get(f"{P}{path}")
        assert answer.status_code == 422, answer.text
        refused = answer.json()
        (fault,) = refused["faults"]
        assert fault["where"] == name
        assert what in fault["what"]
        assert refused["type"] == "urn:kcontrol:problem:wrong-request"

    run(scenario)


@pytest.mark.parametrize(
    ("path", "kind", "body", "what"),
    [
        ("/pause", "text/plain", b"now", "takes no body"),
        ("/inputs/in/skip", "text/plain", b'{"partition": 0, "to_offset": 9, "by": "me"}', "must be JSON"),
        ("/inputs/in/skip", "application/json", b"partition 0", "JSON"),
    ],
)
def test_a_body_that_is_not_what_is_wanted_is_refused(
    run: Run, path: str, kind: str, body: bytes, what: str
) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        answer = await api.client.post(f"{P}{path}", content=body, headers={"Content-Type": kind})
        assert answer.status_code in (400, 422), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert what in answer.json()["detail"]

    run(scenario)


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/query", {"sql": "SELECT 1", "timeout_s": True}, "body.timeout_s"),
        ("/query", {"sql": "SELECT 1", "limit": "10"}, "body.limit"),
        ("/inputs/in/skip", {"partition": False, "to_offset": 9, "by": "me"}, "body.partition"),
        ("/layout", {"nodes": "2"}, "body.nodes"),
    ],
)
def test_what_is_not_of_the_documented_type_is_refused_and_not_converted(
    run: Run, path: str, body: dict[str, object], where: str
) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        answer = await api.client.post(f"{P}{path}", json=body)
        assert answer.status_code == 422, answer.text
        assert where in {fault["where"] for fault in answer.json()["faults"]}

    run(scenario)
