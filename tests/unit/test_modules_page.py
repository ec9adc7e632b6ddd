"""The page of modules is drawn from the imports as they are, without what others imply."""

from __future__ import annotations

from docs.make_modules import ROOT, document, graph, imports, mermaid, reduced


def test_the_page_is_current() -> None:
    page = ROOT / "docs" / "diagrams" / "modules.md"
    assert page.read_text() == document(), "run: python -m docs.make_modules > docs/diagrams/modules.md"


def test_no_two_packages_import_each_other() -> None:
    imported = imports()
    for package in (
        "kcontrol",
        "kcontrol.core",
        "kcontrol.adapters",
        "kcontrol.adapters.kafka",
        "kcontrol.adapters.spark",
    ):
        found = graph(imported, package)
        assert found, package
        for part, names in found.items():
            assert not [name for name in names if part in found[name]], (package, part)


def test_what_others_imply_is_left_out_and_a_circle_is_not() -> None:
    imported = {"p.a.x": {"p.b.y", "p.c"}, "p.b.y": {"p.c"}, "p.c": {"q.z"}, "p.d": {"p.e"}, "p.e": {"p.d"}}
    assert graph(imported, "p") == {"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"e"}, "e": {"d"}}
    assert reduced(graph(imported, "p")) == {"a": {"b"}, "b": {"c"}, "c": set(), "d": {"e"}, "e": {"d"}}
    assert mermaid({"a": {"b"}, "b": set()}) == "flowchart TD\n    b\n    a --> b"
