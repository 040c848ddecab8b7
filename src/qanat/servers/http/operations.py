"""HTTP operations as data: method, path, parameters, body, answer. Routes and documentation come from one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from qanat.model.spelling import did_you_mean
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.inputs import Parameters, mistyped
from qanat.servers.http.problems import Problem

Handle = Callable[[Exchange], Awaitable[Any]]
"""Returns a `Reply`, a value to send as JSON, or `SENT` where it has sent the answer itself."""


class _Sent:
    """The handler has sent the answer itself."""


SENT = _Sent()


@dataclass(frozen=True)
class Operation:
    """One operation."""

    method: str
    path: str
    """With parameters in braces: `/api/v1/topics/{topic}`."""
    handle: Handle
    summary: str
    tag: str
    query: type[Parameters] | None = None
    body: Any = None
    """The type of a JSON body; None where there is none or the handler reads it itself."""
    answer: Any = None
    """The type of the answer, for the documentation."""
    status: int = 200
    statuses: tuple[int, ...] = ()
    """Further statuses of success."""
    bodies: Mapping[str, Any] = field(default_factory=dict)
    """Media types and their types, for the documentation, where the handler reads the body itself."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """Further media types of the answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers with a meaning, and that meaning."""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values of a path parameter, where they are fixed."""
    waits: bool = False
    """Whether the client says how long the answer may take: http.request.timeout.ms does not apply."""
    is_long_poll: bool = False
    """Whether it waits by design, for records, members or changes: a long wait is not slow."""
    is_public: bool = False
    """Whether it needs no authentication."""

    def __post_init__(self) -> None:
        self.__dict__["decoder"] = None if self.body is None else msgspec.json.Decoder(self.body)
        self.__dict__["name"] = self.handle.__name__
        self.__dict__["defaults"] = None
        if self.query is not None:
            with suppress(TypeError):  # Some parameters are required.
                self.__dict__["defaults"] = self.query()

    @property
    def defaults(self) -> Parameters | None:
        """The parameters of a request without a query; None where some are required."""
        found: Parameters | None = self.__dict__["defaults"]
        return found

    @property
    def decoder(self) -> msgspec.json.Decoder[Any] | None:
        found: msgspec.json.Decoder[Any] | None = self.__dict__["decoder"]
        return found

    @property
    def places(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def name(self) -> str:
        found: str = self.__dict__["name"]
        return found


class Routes:
    """Finds the operation of a request."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = tuple(operations)
        self._quick: dict[tuple[str, str], Operation] = {}
        """By method and path, for paths without parameters: nearly every request."""
        self._exact: dict[str, dict[str, Operation]] = {}
        self._placed: dict[int, list[tuple[list[str], dict[str, Operation]]]] = {}
        for operation in self.operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        if not operation.places:
            self._exact.setdefault(operation.path, {})[operation.method] = operation
            self._quick[operation.method, operation.path] = operation
            return
        parts = operation.path.split("/")
        rows = self._placed.setdefault(len(parts), [])
        shape = [part if not part.startswith("{") else "{}" for part in parts]
        for known, methods in rows:
            if [part if not part.startswith("{") else "{}" for part in known] == shape:
                methods[operation.method] = operation
                return
        rows.append((parts, {operation.method: operation}))

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]]:
        """The operation and its path parameters; raises a problem where there is none."""
        quick = self._quick.get((method, path))
        if quick is not None:
            return quick, {}
        methods, placed = self._methods(path)
        operation = methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            allowed = self.methods_at(path)
            raise Problem(
                405, f"{method} is not answered at {path}; {allowed} is", headers=((b"allow", allowed.encode()),)
            )
        return operation, placed

    def methods_at(self, path: str) -> str:
        """The methods that are answered at a path; raises a problem where there are none."""
        methods, _ = self._methods(path)
        return ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))

    def _methods(self, path: str) -> tuple[dict[str, Operation], dict[str, str]]:
        exact = self._exact.get(path)
        if exact is not None:
            return exact, {}
        parts = path.split("/")
        for shape, methods in self._placed.get(len(parts), ()):
            placed: dict[str, str] = {}
            for expected, part in zip(shape, parts, strict=True):
                if expected.startswith("{") and part:
                    placed[expected[1:-1]] = part
                elif expected != part:
                    break
            else:
                return methods, {name: placed[name] for name in placed}
        raise Problem(404, f"there is nothing at {path}; GET /docs shows what there is")


def read_query(operation: Operation, text: bytes) -> Any:
    """The query parameters; raises a problem that names the fault."""
    if not text and operation.defaults is not None:
        return operation.defaults
    given: dict[str, str] = {}
    if text:
        try:
            pairs = parse_qsl(text.decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError as fault:
            raise Problem(400, f"the query is not of the form name=value&name=value in UTF-8: {fault}") from None
        known = () if operation.query is None else operation.query.__struct_encode_fields__
        for name, value in pairs:
            if name not in known:
                every = f"known are {', '.join(known)}" if known else "none is known here"
                hint = did_you_mean(name, known, every)
                raise Problem(400, f"unknown query parameter {name!r}{hint}", parameter=name)
            if name in given:
                raise Problem(400, f"query parameter {name} is given twice", parameter=name)
            given[name] = value
    if operation.query is None:
        return None
    try:
        return msgspec.convert(given, operation.query, strict=False)
    except msgspec.ValidationError as fault:
        raise mistyped(str(fault), "query parameters", operation.query) from None
