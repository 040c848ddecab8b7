"""No import cycles, by type neither: imports under `TYPE_CHECKING` and inside functions count like all others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.statements import statements

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
GENERATED = "qanat.wire.kafka.messages"


def modules(sources: Path = SOURCES) -> dict[str, Path]:
    """All modules of the product by their dotted names, except generated ones."""
    found = {}
    for path in sorted((sources / "qanat").rglob("*.py")):
        parts = path.relative_to(sources).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not name.startswith(GENERATED):
            found[name] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules that one imports, anywhere in its text; a package counts where a name of its own is imported."""
    for node in statements(path.read_text()):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    yield inner
                elif node.module in known:
                    yield node.module


def cycles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Groups of modules each of which reaches all others of its group (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in sorted(graph[module]):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            place = stack.index(module)
            group, stack[place:] = frozenset(stack[place:]), []
            if len(group) > 1:
                found.add(group)

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return found


def import_graph(sources: Path = SOURCES) -> dict[str, set[str]]:
    known = modules(sources)
    return {name: {one for one in imports(path, known) if one != name} for name, path in known.items()}


def test_there_are_no_import_cycles() -> None:
    found = cycles(import_graph())

    assert found == set(), "import cycles: " + "; ".join(" ".join(sorted(one)) for one in found)


def test_a_cycle_by_type_is_found(tmp_path: Path) -> None:
    package = tmp_path / "qanat"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("if TYPE_CHECKING:\n    from qanat.two import Two\n")
    (package / "two.py").write_text("def late():\n    from qanat import three\n")
    (package / "three.py").write_text("import qanat.one\n")
    (package / "four.py").write_text("from qanat.one import One\n")

    assert cycles(import_graph(tmp_path)) == {frozenset({"qanat.one", "qanat.two", "qanat.three"})}
