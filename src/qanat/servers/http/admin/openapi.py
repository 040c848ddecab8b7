"""The OpenAPI document, made from the table of operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from qanat import __version__
from qanat.model.setting_meanings import meanings
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import CONTENT_TYPE, ProblemDocument

_REFERENCE = "#/components/schemas/{name}"
_PROBLEM = CONTENT_TYPE.decode()
_TAGS = {
    "records": "Write and read records.",
    "streams": "Read records as they come.",
    "groups": "Consumer groups: members, offsets, lag.",
    "queues": "Share groups: acquire, accept, release, reject.",
    "topics": "Topics and their records.",
    "configs": "Settings of topics and brokers, under Kafka's names.",
    "cluster": "Brokers and transactions.",
    "security": "Users, rules, and signing in.",
    "health": "Whether the node lives, and what it counts.",
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    schemas = _Schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Qanat",
            "version": __version__,
            "description": "Produce, consume, administer and observe over HTTP. Errors are problem documents "
            "(RFC 9457): what was wrong, where, and what to do.",
        },
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": {
                "Problem": {
                    "description": "What was wrong, where, and what to do.",
                    "content": {_PROBLEM: {"schema": schemas.of(ProblemDocument)}},
                }
            },
        },
    }


class _Schemas:
    """The JSON Schema of every type in the operations."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        types: dict[int, Any] = {id(ProblemDocument): ProblemDocument}
        for operation in operations:
            for mentioned in (
                operation.query,
                operation.body,
                operation.answer,
                *operation.bodies.values(),
                *operation.answers.values(),
            ):
                for one in _alternatives(mentioned):
                    types[id(one)] = one
        found, self.components = msgspec.json.schema_components(list(types.values()), ref_template=_REFERENCE)
        self._schemas = dict(zip(types, found, strict=True))
        for one in types.values():
            for struct in _structs(one):
                self._describe(struct)

    def of(self, mentioned: Any) -> dict[str, Any]:
        schemas = [self._schemas[id(one)] for one in _alternatives(mentioned)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def parameters(self, query: type[msgspec.Struct]) -> list[dict[str, Any]]:
        schema = self.components[query.__name__]
        texts = meanings(query)
        return [
            {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", ()),
                "description": texts.get(name, ""),
                "schema": _without_null(member),
            }
            for name, member in schema["properties"].items()
        ]

    def _describe(self, struct: type[msgspec.Struct]) -> None:
        component = self.components.get(struct.__name__)
        if component is None:
            return
        for name, text in meanings(struct).items():
            member = component.get("properties", {}).get(name)
            if member is not None and text:
                member.setdefault("description", text)


def _alternatives(mentioned: Any) -> tuple[Any, ...]:
    if mentioned is None:
        return ()
    return mentioned if isinstance(mentioned, tuple) else (mentioned,)


def _structs(mentioned: Any) -> list[type[msgspec.Struct]]:
    """The structs in a type, those inside other structs included."""
    found: dict[type[msgspec.Struct], None] = {}

    def look(info: Any) -> None:
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in found:
                return
            found[info.cls] = None
            for one in info.fields:
                look(one.type)
        for name in ("types", "item_types"):
            for inner in getattr(info, name, ()):
                look(inner)
        for name in ("item_type", "key_type", "value_type", "type"):
            if isinstance(inner := getattr(info, name, None), msgspec.inspect.Type):
                look(inner)

    look(msgspec.inspect.type_info(mentioned))
    return list(found)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a query parameter, which may be left out, never null."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if not choices:
        return {name: value for name, value in schema.items() if not (name == "default" and value is None)}
    if len(choices) == 1:
        return dict(choices[0])
    rest = {name: value for name, value in schema.items() if name != "anyOf" and not (name == "default" and not value)}
    return {**rest, "anyOf": choices}


def _operation(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": place, "in": "path", "required": True, "schema": _place(operation, place)}
        for place in operation.places
    ]
    if operation.query is not None:
        parameters += schemas.parameters(operation.query)
    parameters += [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": text,
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        }
        for name, text in operation.headers.items()
    ]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": _responses(operation, schemas),
    }
    if parameters:
        described["parameters"] = parameters
    bodies = {"application/json": operation.body} if operation.body is not None else operation.bodies
    if bodies:
        content = {media_type: {"schema": schemas.of(body)} for media_type, body in bodies.items()}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _place(operation: Operation, place: str) -> dict[str, Any]:
    choices = operation.choices.get(place)
    return {"type": "string", "minLength": 1} if choices is None else {"enum": list(choices)}


def _responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    answers = {"application/json": operation.answer} if operation.answer is not None else {}
    content = {
        media_type: {"schema": schemas.of(answer)} for media_type, answer in {**answers, **operation.answers}.items()
    }
    good: dict[str, Any] = {"description": "Done."}
    if content:
        good["content"] = content
    problem = {"$ref": "#/components/responses/Problem"}
    statuses = {str(status): good for status in (operation.status, *operation.statuses)}
    return {**statuses, "4XX": problem, "5XX": problem}
