"""The imports of the code as the syntax tree has them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One imported module.

    Attributes:
        file: importing file, relative to the root.
        module: absolute dotted name; for `from a import b` it is `a.b` where that is a module, else `a`.
        line: where.
        is_at_import: whether it runs when the file is imported (not inside a function, nor for types only).
    """

    file: Path
    module: str
    line: int
    is_at_import: bool


def _is_type_checking(node: ast.If) -> bool:
    test = node.test
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def _walk(node: ast.AST, *, is_at_import: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, is_at_import
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _walk(child, is_at_import=False)
        elif isinstance(child, ast.If) and _is_type_checking(child):
            for part in child.body:
                yield from _walk_one(part, is_at_import=False)
            for part in child.orelse:
                yield from _walk_one(part, is_at_import=is_at_import)
        else:
            yield from _walk(child, is_at_import=is_at_import)


def _walk_one(node: ast.AST, *, is_at_import: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    yield from _walk(ast.Module(body=[node], type_ignores=[]), is_at_import=is_at_import)  # type: ignore[list-item]


def _is_module(root: Path, name: str) -> bool:
    path = root.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def imports_of(root: Path, file: Path) -> Iterator[Import]:
    """All imports of `file` (absolute path under `root`), also those inside functions and for types only."""
    relative = file.relative_to(root)
    package = list(relative.with_suffix("").parts[:-1])
    tree = ast.parse(file.read_text(), str(relative))
    for node, is_at_import in _walk(tree, is_at_import=True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(relative, alias.name, node.lineno, is_at_import)
            continue
        above = package[: len(package) - (node.level - 1)] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            full = f"{base}.{alias.name}"
            is_ours = base.split(".")[0] in ("apps", "rsure_web", "tests")
            yield Import(relative, full if is_ours and _is_module(root, full) else base, node.lineno, is_at_import)


def python_files(root: Path, *folders: str) -> list[Path]:
    """Sources below `folders`, without migrations (Django writes them)."""
    return sorted(
        path
        for folder in folders
        for path in (root / folder).rglob("*.py")
        if "migrations" not in path.parts and "node_modules" not in path.parts
    )
