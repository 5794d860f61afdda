"""Small faults planted in a module, one at a time. Pure: text to trees.

Left alone is what no test could tell apart or what only people read: docstrings, annotations, decorators, options of classes, messages
of errors, assertions, and the constants of a module, which are choices that tests read as well.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

import msgspec

OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}

READ_BY_PEOPLE = (ast.JoinedStr, ast.Raise, ast.Assert, ast.ImportFrom, ast.Import)


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One fault: `number` is its place among those of the module, `line` and `code` say where, `what` says what."""

    module: str
    number: int
    line: int
    code: str
    what: str

    @property
    def name(self) -> str:
        """What stays the same when other lines move: `events/quota.py: CODE: WHAT`."""
        return f"{self.module}: {self.code}: {self.what}"


Fault = tuple[ast.AST, str, Callable[[], None]]
"""Where, what, and the deed."""


def faults(tree: ast.Module) -> Iterator[Fault]:
    """Every fault that can be planted in a tree, in a fixed order. Do at most one of them."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            yield from _within(node)


def _within(node: ast.AST) -> Iterator[Fault]:
    if isinstance(node, READ_BY_PEOPLE):
        return
    yield from _of(node)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "keywords", "bases") and not isinstance(node, ast.Call):
            continue
        children = value if isinstance(value, list) else [value]
        for place, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_docstring(child):
                continue
            if isinstance(value, list) and isinstance(child, ast.stmt) and _is_deed(child):
                yield child, "left out", lambda v=value, p=place, c=child: _put(v, p, ast.copy_location(ast.Pass(), c))
            yield from _within(child)


def _of(node: ast.AST) -> Iterator[Fault]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                if type(op) in OTHER:
                    other = OTHER[type(op)]
                    yield node, f"{_sign(op)} is {_sign(other())}", lambda p=place, o=other: _put(ops, p, o())
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OTHER:
            other = OTHER[type(op)]
            yield node, f"{_sign(op)} is {_sign(other())}", lambda: setattr(node, "op", other())
        case ast.BoolOp(op=op):
            yield node, f"{_sign(op)} is {_sign(OTHER[type(op)]())}", lambda: setattr(node, "op", OTHER[type(op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield node, "not is left out", lambda: setattr(node, "op", _Same())
        case ast.If(test=test) | ast.IfExp(test=test):
            yield node, "if is unless", lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[_, *_] as ifs):
            yield ifs[0], "a filter is left out", lambda: setattr(node, "ifs", ifs[1:])
        case ast.match_case(guard=ast.expr() as guard):
            yield guard, "the guard is left out", lambda: setattr(node, "guard", None)
        case ast.Constant(value=bool() as value):
            yield node, f"{value} is {not value}", lambda: setattr(node, "value", not value)
        case ast.Constant(value=int() as value):
            yield node, f"{value} is {value + 1}", lambda: setattr(node, "value", value + 1)
        case _:
            pass


class _Same(ast.UAdd):
    """Marks a `not` that is left out; `plant` takes its operand instead."""


class _LeaveOut(ast.NodeTransformer):
    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return node.operand if isinstance(node.op, _Same) else node


def _put(items: list[ast.AST], place: int, item: ast.AST) -> None:
    items[place] = item


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_deed(node: ast.stmt) -> bool:
    """A statement that does something and binds no name that a later line needs."""
    return isinstance(node, ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not _never(node.value)
    )


def _never(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "assert_never"


def _sign(op: ast.AST) -> str:
    signs = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=", "Is": "is", "IsNot": "is not"}
    signs |= {
        "In": "in",
        "NotIn": "not in",
        "Add": "+",
        "Sub": "-",
        "Mult": "*",
        "FloorDiv": "//",
        "And": "and",
        "Or": "or",
    }
    return signs[type(op).__name__]


def mutants(module: str, text: str) -> list[Mutant]:
    """The faults of a module; a number, a line and a word for each."""
    lines = text.splitlines()
    return [
        Mutant(
            module=module,
            number=n,
            line=getattr(node, "lineno", 0),
            code=lines[getattr(node, "lineno", 1) - 1].strip(),
            what=what,
        )
        for n, (node, what, _) in enumerate(faults(ast.parse(text)))
    ]


def plant(text: str, number: int) -> ast.Module:
    """The tree of a module with one fault in it."""
    tree = copy.deepcopy(ast.parse(text))
    for n, (_, _, deed) in enumerate(faults(tree)):
        if n == number:
            deed()
            break
    return ast.fix_missing_locations(_LeaveOut().visit(tree))


def node_of(text: str, number: int) -> ast.stmt | ast.expr:
    """Where in a module a fault is."""
    node = next(node for n, (node, _, _) in enumerate(faults(ast.parse(text))) if n == number)
    assert isinstance(node, ast.stmt | ast.expr)
    return node
