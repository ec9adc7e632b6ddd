"""What a pipeline may read."""

from __future__ import annotations

from kcontrol.definition.files import FileInput
from kcontrol.definition.generated import ClockInput, GeneratorInput
from kcontrol.definition.parts import KafkaInput

Input = KafkaInput | FileInput | GeneratorInput | ClockInput
