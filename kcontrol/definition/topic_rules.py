"""Whether a pipeline's topics are its user's own, and not kcontrol's: known only once the cluster's names
are."""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError
from kcontrol.wire.names import Names, check_no_collisions


def check_own_topics(pipeline: Pipeline, names: Names) -> None:
    """Raise ConfigurationError if the pipeline reads or writes the control topic, its own log of steps or its own
    exchanges, writes a log of steps or an exchange of any pipeline, or has a topic whose name Kafka would confuse
    with one of the logs."""
    control, steps = names.control_topic(), names.steps_topic(pipeline.name)
    reads = {each.topic: f"input {each.name!r}" for each in pipeline.inputs if each.topic}
    writes = {each.topic: f"output {each.name!r}" for each in pipeline.outputs}
    writes |= {
        each.dead_letter_topic: f"dead_letter_topic of input {each.name!r}"
        for each in pipeline.inputs
        if each.dead_letter_topic
    }
    own = {control: "the control topic", steps: "the pipeline's own log of steps"}
    for topic, what in {**reads, **writes}.items():
        where = f"pipeline {pipeline.name!r}, {what}"
        if topic in own:
            raise ConfigurationError(
                f"{where}: topic {topic!r} is {own[topic]}: choose another topic, or another prefix"
            )
        if topic in writes and names.is_steps_topic(topic):
            raise ConfigurationError(
                f"{where}: topic {topic!r} has a name by which kcontrol keeps the log of a pipeline's "
                "steps, and only coordinators write those: choose another topic, or another prefix"
            )
        if names.is_exchange_topic(topic, None if topic in writes else pipeline.name):
            raise ConfigurationError(
                f"{where}: topic {topic!r} has a name by which nodes of a pipeline exchange rows, and only "
                "they use those: choose another topic, or another prefix"
            )
    check_no_collisions(
        {
            **own,
            **{topic: f"pipeline {pipeline.name!r}, {what}" for topic, what in {**reads, **writes}.items()},
        }
    )


def check_exchange_topics(pipeline: Pipeline, names: Names, exchanges: Sequence[str]) -> None:
    """Raise ConfigurationError if Kafka would confuse the topic of one of the pipeline's exchanges with that of
    another, or with any other topic of the pipeline, or if it can't be called so. exchanges: their names."""
    where = f"pipeline {pipeline.name!r}"
    topics = {names.exchange_topic(pipeline.name, each): f"{where}, exchange {each!r}" for each in exchanges}
    topics |= {each.topic: f"{where}, input {each.name!r}" for each in pipeline.inputs if each.topic}
    topics |= {each.topic: f"{where}, output {each.name!r}" for each in pipeline.outputs}
    check_no_collisions(topics)
