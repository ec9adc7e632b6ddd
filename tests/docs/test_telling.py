"""A page that does not come true fails, whatever it is that differs; one that does passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import blocks_in
from tests.docs.story import Story


def tell(text: str, directory: Path) -> None:
    with Story(directory, {"9092": "4711"}) as story:
        story.tell(blocks_in("page.md", text), directory)


TRUE = """
```python title="add.py"
import sys
print(f"the sum is {sum(map(int, sys.argv[1:]))}")
```
```bash
python add.py 1 2 > sum.txt
cat sum.txt
```
<!-- prints -->
```text
the sum is 100
```
<!-- terminal: cat -->
```bash
tail -n +1 -f sum.txt
```
<!-- prints: cat -->
```text
the sum is 3
```
```bash
echo port 9092 >> sum.txt
grep -q 4711 sum.txt
```
<!-- prints: cat -->
```text
port 9092
```
```bash
kcontrol steps  # exit code 2
```
<!-- prints -->
```text
...
Error: Missing argument 'PIPELINE'.
```
<!-- not run: it would remove everything -->
```bash
rm -r ~
```
"""


STUBBORN = """bash -c 'trap "exit 3" INT; echo up; while true; do sleep 0.05; done'"""


def test_what_is_true_passes(tmp_path: Path) -> None:
    tell(TRUE, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```bash\nfalse\n```\n", "ended with 1 instead of 0"),
        ("```bash\nfalse | true\n```\n", "ended with 1 instead of 0"),
        ("```bash\ntrue  # exit code 2\n```\n", "ended with 0 instead of 2"),
        ("```bash\necho two\n```\n<!-- prints -->\n```text\ntwo\nthree\n```\n", "'three'"),
        (
            "<!-- terminal: a -->\n```bash\necho one\n```\n<!-- prints: a -->\n```text\ntwo\n```\n",
            "ended with 0 and printed",
        ),
        (
            "<!-- terminal: a -->\n```bash\necho one\n```\n<!-- prints: a -->\n```text\none\n```\n"
            "<!-- prints: a -->\n```text\none\n```\n",
            "ended with 0 and printed",
        ),
        (
            f"<!-- terminal: a -->\n```bash\n{STUBBORN}\n```\n<!-- prints: a -->\n```text\nup\n```\n",
            "ended with 3",
        ),
        ("```bash\nkcontrol stat\n```\n", "ended with 2 instead of 0"),
        ("<!-- not run: for a reason -->\n```bash\nkcontrol stat\n```\n", "no command kcontrol stat"),
        ("```python\nprint(1)\n```\n", "give it a title"),
    ],
)
def test_what_is_not_true_fails(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=said):
        tell(text, tmp_path)
