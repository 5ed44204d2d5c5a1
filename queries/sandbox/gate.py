"""The gate for a person's SQL: what one SELECT may contain, decided on the tree that DuckDB's parser makes of it.

Only listed kinds of nodes, functions, types and relations are allowed: everything else is refused. The tree has the
meaning of a text wherever it is hidden: in a subquery, a CTE, a lambda, a pivot, the arguments of a function.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import duckdb

from queries.errors import QueryError
from queries.near_names import MISTYPED, did_you_mean, near_names
from queries.sandbox.functions import FUNCTIONS, TABLE_FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_EXPRESSIONS: Final = frozenset(
    str.split(
        "BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR "
        "POSITIONAL_REFERENCE STAR SUBQUERY WINDOW"
    )
)
_NODES: Final = frozenset(
    str.split(
        "SELECT_NODE SET_OPERATION_NODE RECURSIVE_CTE_NODE CTE_NODE "
        "BASE_TABLE EMPTY EXPRESSION_LIST JOIN PIVOT SHOW_REF SUBQUERY TABLE_FUNCTION "
        "DISTINCT_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER ORDER_MODIFIER "
        "ORDER_DEFAULT ASCENDING DESCENDING "
        "ARRAY_TYPE_INFO DECIMAL_TYPE_INFO LIST_TYPE_INFO STRING_TYPE_INFO STRUCT_TYPE_INFO UNBOUND_TYPE_INFO"
    )
)
_TYPES: Final = frozenset(
    {
        *str.split("NULL BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT"),
        *str.split("FLOAT DOUBLE DECIMAL BIGNUM VARCHAR BLOB BIT UUID DATE TIME TIME_NS INTERVAL"),
        *str.split("TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS LIST ARRAY STRUCT MAP UNION UNBOUND"),
        *("TIME WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE"),
    }
)
_NAMED_TYPES: Final = frozenset({"json", "enum", "list"})
"""Types that the parser leaves unresolved."""

_SHOWN: Final = frozenset({"tables", "databases", "__show_tables_expanded"})
"""Names that SHOW may show besides relations."""

CATALOGUE: Final = frozenset(
    {"duckdb_columns", "duckdb_tables", "duckdb_views"}
    | {f"information_schema.{name}" for name in ("columns", "schemata", "tables")}
)
"""Relations that describe the others."""

_DEEPEST: Final = 400
"""Nested brackets; DuckDB itself gives up at 1,000, and Python's JSON reader not much later."""


ONE_SELECT: Final = "only one SELECT at a time: the published copy is for reading"


def admit(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Let one SELECT pass of which all parts are allowed; it may read every relation that the database has.

    Raises:
        QueryError: it is something else.
        duckdb.Error: it is not SQL.
    """
    try:
        statements = connection.extract_statements(sql.encode().decode())
    except UnicodeEncodeError:
        raise QueryError("this is not text: some of its bytes are not UTF-8") from None
    # EXPLAIN stays out: EXPLAIN ANALYZE runs what it explains, and that may be a COPY.
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        raise QueryError(_not_one_select([str(each.type).rpartition(".")[2] for each in statements], sql))
    row = connection.execute("SELECT json_serialize_sql($1::VARCHAR), current_database()", [sql]).fetchone()
    serialised, database = row or ("{}", "")
    check(serialised, _relations(connection), database)


def _not_one_select(kinds: list[str], sql: str) -> str:
    """What was refused.

    >>> _not_one_select(["ATTACH"], "ATTACH 'x'")
    'ATTACH is refused: only one SELECT at a time: the published copy is for reading'
    >>> _not_one_select(["CREATE", "SELECT"], "PIVOT users ON a")
    'PIVOT needs its values: ON column IN (...)'
    """
    if len(kinds) > 1 and "pivot" in sql.lower():  # the parser makes a type of the values first
        return "PIVOT needs its values: ON column IN (...)"
    if len(kinds) > 1:
        return f"{len(kinds)} statements are refused: {ONE_SELECT}"
    return f"{kinds[0]} is refused: {ONE_SELECT}" if kinds else f"there is no statement: {ONE_SELECT}"


def _relations(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Tables and views, by schema and name; those of the schema that is searched, by name alone too."""
    rows = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal "
        "UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal"
    ).fetchall()
    return {f"{schema}.{name}" for schema, name in rows} | {name for schema, name in rows if schema == "main"}


def check(serialised: str, relations: Collection[str], database: str = "") -> None:
    """Refuse a statement that does anything but choose from and compute on these relations.

    Args:
        serialised: what DuckDB's `json_serialize_sql` makes of the text.
        relations: tables and views that may be read: `schema.name`, and `name` where the schema is searched.
        database: name under which the published copy is open; relations may be named with it.

    Raises:
        QueryError: it contains something else; the message names it.
    """
    tree = _parsed(serialised)
    known = {name.lower() for name in relations} | CATALOGUE | {name.lower() for name in _ctes(tree)}
    for node in _nodes(tree):
        _check_kind(node)
        if "function_name" in node and not node.get("_table"):
            _check_function(node["function_name"], FUNCTIONS, TABLE_FUNCTIONS)
        if node.get("type") == "BASE_TABLE":
            _check_relation(node, known, database.lower())
        elif node.get("type") == "SHOW_REF":
            _check_shown(node, known)


def _parsed(serialised: str) -> dict[str, Any]:
    """The one statement of a serialisation."""
    try:
        whole = json.loads(serialised)
    except (ValueError, RecursionError):
        raise QueryError("this SQL is nested too deeply") from None
    if whole.get("error"):
        message = str(whole.get("error_message", "this is not SQL"))
        raise QueryError(ONE_SELECT if message.startswith("Only SELECT") else message)
    statements = whole.get("statements", ())
    if len(statements) != 1:
        raise QueryError(ONE_SELECT)
    (statement,) = statements
    if statement.get("named_param_map"):
        raise QueryError("parameters ($1, ?) have no values here: write the values themselves")
    return dict(statement)


def _nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All objects of the tree; the function of a table function is marked, for another list holds for it."""
    left: list[tuple[Any, int]] = [(tree, 0)]
    while left:
        node, depth = left.pop()
        if depth > _DEEPEST * 4:
            raise QueryError("this SQL is nested too deeply")
        if isinstance(node, dict):
            if node.get("type") == "TABLE_FUNCTION":
                node = node | {"function": _table_function(node.get("function"))}
            yield node
            left += [(value, depth + 1) for value in node.values() if isinstance(value, dict | list)]
        else:
            left += [(value, depth + 1) for value in node if isinstance(value, dict | list)]


def _table_function(function: Any) -> dict[str, Any]:  # noqa: ANN401 - parsed JSON
    if not isinstance(function, dict) or function.get("class") != "FUNCTION":
        raise QueryError("this form of a table function is not allowed")
    _check_function(function.get("function_name"), TABLE_FUNCTIONS, ())
    return function | {"_table": True}


def _ctes(tree: dict[str, Any]) -> Iterator[str]:
    """Names that the statement itself gives to queries.

    Names that could also be those of files are not among them, for a name without a table is resolved there.
    """
    for node in _nodes(tree):
        entries = node.get("map")
        names = [each.get("key") for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
        if node.get("type") == "RECURSIVE_CTE_NODE":
            names.append(node.get("cte_name"))
        yield from (name for name in names if isinstance(name, str) and not set(name) & set("./\\:*?[]"))


def _check_kind(node: dict[str, Any]) -> None:
    """An expression has a class, a node or modifier a type, a type of values an id; other objects are parts of them."""
    if "class" in node:
        allowed = _is_one(node["class"], _EXPRESSIONS)
    elif isinstance(node.get("type"), str):
        allowed = _is_one(node["type"], _NODES)
    else:
        allowed = "id" not in node or _is_one(node["id"], _TYPES)
    if node.get("type") == "UNBOUND_TYPE_INFO":
        allowed = str(node.get("name", "")).lower() in _NAMED_TYPES
    if not allowed or node.get("export_state"):
        what = next((node[key] for key in ("name", "class", "type", "id") if isinstance(node.get(key), str)), "this")
        raise QueryError(f"{_words(what)} cannot be used here")


def _is_one(kind: object, kinds: Collection[str]) -> bool:
    return isinstance(kind, str) and kind in kinds


def _words(name: object) -> str:
    r"""A name from the tree as a part of a message.

    >>> _words("PARAMETER"), _words("a\nb")
    ("'PARAMETER'", "'a\\nb'")
    """
    return repr(str(name)[:80])


def _check_function(name: object, allowed: Collection[str], others: Collection[str]) -> None:
    if str(name).lower() in allowed:
        return
    near = near_names(str(name), [*allowed, *others], similarity=MISTYPED)
    hint = f"; did you mean {near[0]}()?" if near else ""
    raise QueryError(
        f"the function {_words(name)} cannot be called here{hint}\n"
        "SQL reads the tables and views of the warehouse and computes with values. Functions that read files, run "
        "other SQL or look into the engine are refused."
    )


def _check_relation(node: dict[str, Any], relation_names: Collection[str], database: str) -> None:
    schema, catalog = (str(node.get(key) or "").lower() for key in ("schema_name", "catalog_name"))
    name = str(node.get("table_name")).lower()
    inside = catalog in {"", database, "system"} and (
        schema in {"", "main", database} or f"{schema}.{name}" in relation_names
    )
    if not inside or (f"{schema}.{name}" not in relation_names and name not in relation_names):
        shown = ".".join(filter(None, (catalog, schema, name)))
        hint = did_you_mean(name, sorted(relation_names), most=2)
        raise QueryError(f"there is no table {_words(shown)}{hint}\nAll of them: trackside export tables")


def _check_shown(node: dict[str, Any], relation_names: Collection[str]) -> None:
    """DESCRIBE and SUMMARIZE hold a query, which is checked like any other; SHOW names what it shows."""
    name = str(node.get("table_name") or "").strip('"').lower()
    if name and name not in _SHOWN and name not in relation_names:
        raise QueryError(f"SHOW {name[:80]} cannot be used here; SHOW TABLES and DESCRIBE table can")
