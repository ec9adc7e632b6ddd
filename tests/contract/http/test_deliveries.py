"""Deliveries over HTTP: what their processes tell, as of the pipeline's last step."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.model import InputSpec
from kcontrol.views.deliveries import DeliveriesSeen, StandsBy, ToldDelivery
from kcontrol.wire.addresses import ClockAddress, GeneratorAddress
from tests.contract.http.conftest import Api, Run

P = "/v1/pipelines/p"
WORKS = ToldDelivery(
    *("out", "totals", "postgresql", "exactly_once", "running", 1, 3.5, "", 2_000),
    *("postgresql://db:5432/shop", 1_000, "host-a:7:beef"),
    standing_by=(StandsBy("host-b:8:cafe", 2_000),),
)
HALTED = replace(
    WORKS, target="hooks", kind="webhook", state="halted", reason="410 Gone", step=-1, standing_by=()
)


def test_each_is_told_with_its_target_its_step_and_who_delivers(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.told.step(7, 1)
        await api.told.step(8, 2)
        await api.seen(await api.told.status(), steps=2)
        api.deliveries["p"] = DeliveriesSeen([WORKS, HALTED], 1_250)
        answer = await api.get(f"{P}/deliveries")
        assert (answer["step"], answer["age_ms"], answer["unknown"]) == (2, 1_250, "")
        assert answer["as_of"] == (await api.get(P))["as_of"]
        halted, works = answer["deliveries"]
        assert works["silent_ms"] > 0
        assert works == {
            **{"output": "out", "target": "totals", "kind": "postgresql", "guarantee": "exactly_once"},
            **{"address": "postgresql://db:5432/shop", "state": "running", "since_ms": 1_000, "reason": ""},
            **{"step": 1, "behind": 1, "lag_s": 3.5, "by": "host-a:7:beef", "standing_by": ["host-b:8:cafe"]},
            **{"at_ms": 2_000, "silent_ms": works["silent_ms"], "silent": True},
        }
        assert (halted["state"], halted["reason"], halted["since_ms"]) == ("halted", "410 Gone", 1_000)
        assert (halted["step"], halted["behind"], halted["by"], halted["silent"]) == (-1, None, None, False)

    run(scenario)


def test_what_is_not_known_and_how_old_an_answer_is_are_said(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        nothing = await api.get(f"{P}/deliveries")
        assert (nothing["deliveries"], nothing["step"]) == ([], 0)
        api.deliveries["p"] = DeliveriesSeen(unknown="nothing is known: no broker")
        unknown = await api.get(f"{P}/deliveries")
        assert (unknown["age_ms"], unknown["unknown"]) == (None, "nothing is known: no broker")
        api.deliveries["p"] = DeliveriesSeen([WORKS], 90_000, "nothing newer is known: no broker")
        old = await api.get(f"{P}/deliveries")
        assert (old["age_ms"], len(old["deliveries"])) == (90_000, 1)

    run(scenario)


def test_there_are_none_of_a_pipeline_that_is_not_there(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        assert "no" in (await api.get("/v1/pipelines/no/deliveries", 404))["detail"]
        async with api.another(hasty=True) as other:
            await other.seen(0)
            late = await other.get(f"{P}/deliveries", 409, min_control_offset=9_999)
        assert late["type"] == "urn:kcontrol:problem:not-reached"

    run(scenario)


def test_inputs_are_told_with_their_kind(run: Run) -> None:
    async def scenario(api: Api) -> None:
        await api.told.begin()
        await api.seen(0)
        assert (await api.get(f"{P}/inputs/in"))["input"]["kind"] == "topic"
        assert (await api.get(P))["status"]["inputs"][0]["kind"] == "topic"

    run(scenario)


def test_inputs_without_a_topic_are_told_with_the_word_of_their_address(run: Run) -> None:
    async def kinds(api: Api, *topics: str) -> list[str]:
        found: InputSpec = api.told.input
        inputs = tuple(
            replace(found, name=f"in{at}", topic=topic, start_offsets=(0,), node_of=(0,))
            for at, topic in enumerate(topics)
        )
        api.told.spec = replace(api.told.spec, inputs=inputs)
        await api.seen(await api.told.say(api.told.spec))
        return [each["kind"] for each in (await api.get(f"{P}/inputs"))["inputs"]]

    async def scenario(api: Api) -> None:
        generator = GeneratorAddress(1, 10, 0, 0, 0, 0).text
        file = "file:growing=1,header=0,max_line_bytes=100,pattern=,path=/data/a"
        assert await kinds(api, generator, ClockAddress(5).text, file) == ["generator", "clock", "file"]

    run(scenario)
