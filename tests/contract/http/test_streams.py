"""A server that was not told to streams nothing."""

from __future__ import annotations

from tests.contract.http.conftest import Api, Run


def test_a_server_streams_no_output_unless_it_is_told_to(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        told = await api.get("/v1/pipelines/p/outputs/out/stream", 409, after=0)
        assert "start it with --max-streams" in told["detail"]

    run(scenario)
