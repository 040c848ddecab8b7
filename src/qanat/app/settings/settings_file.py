"""A settings file: YAML, nested or dotted, or Kafka's `server.properties`; each value with the line it stands on.

    num.partitions: 3            num:                     num.partitions=3
                                   partitions: 3

`${NAME:default}` is the value of an environment variable, or the default where it is not set; `${file:…}`, `${env:…}`
and `${command:…}` are references (`connection.secret_references`).
The YAML parser is loaded only when there is a YAML file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from qanat.app.settings.faults import Faults
from qanat.app.settings.source_value import SourceValue
from qanat.connection.secret_references import KINDS
from qanat.model.errors import InvalidSettingError

if TYPE_CHECKING:
    from pathlib import Path

if TYPE_CHECKING:
    from yaml import Node, ScalarNode

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<default>[^}]*))?\}")
_DEEPEST = 20
_TYPED = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool"))
_NULL = "tag:yaml.org,2002:null"


def read_file(path: Path, environment: Mapping[str, str], faults: Faults) -> list[SourceValue]:
    """Every value of the file; raises `InvalidSettingError` where the file cannot be read."""
    filled: list[SourceValue] = []
    with faults:
        text = _text(path)
        found = _properties(text, path, faults) if path.suffix == ".properties" else _yaml(text, path, faults)
        for value in found:
            with faults:
                filled.append(_filled_in(value, environment))
    return filled


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise InvalidSettingError(f"cannot read the settings file {path}: {reason}") from None


def _properties(text: str, path: Path, faults: Faults) -> Iterator[SourceValue]:
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        name, separator, value = line.partition("=")
        if separator:
            yield SourceValue(name.strip(), value.strip(), f"{path} line {number}")
            continue
        with faults:
            raise InvalidSettingError(f"{path} line {number}: {line!r} should read name=value")


def _yaml(text: str, path: Path, faults: Faults) -> Iterator[SourceValue]:
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as fault:
        line = fault.problem_mark.line + 1 if fault.problem_mark else 1
        raise InvalidSettingError(f"{path} line {line} is not YAML: {fault.problem}") from None
    except yaml.YAMLError as fault:
        raise InvalidSettingError(f"{path} is not YAML: {fault}") from None
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise InvalidSettingError(f"{path} should hold settings such as `num.partitions: 3`")
    yield from _walk(root, (), path, faults)


def _walk(node: Node, above: tuple[str, ...], path: Path, faults: Faults) -> Iterator[SourceValue]:
    import yaml

    origin = f"{path} line {node.start_mark.line + 1}"
    if len(above) > _DEEPEST:
        raise InvalidSettingError(f"{origin}: settings are nested too deeply")
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise InvalidSettingError(f"{path} line {key.start_mark.line + 1}: a name was expected")
            yield from _walk(value, (*above, key.value), path, faults)
        return
    name, found = ".".join(above), []
    with faults:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found.append(",".join([_scalar(part, name, origin) for part in parts]))
    yield from (SourceValue(name, text, origin) for text in found)


def _scalar(node: Node, name: str, origin: str) -> str:
    import yaml

    if not isinstance(node, yaml.ScalarNode) or node.tag == _NULL:
        raise InvalidSettingError(f"{name} ({origin}) has no value")
    return _typed(node) if node.tag in _TYPED else str(node.value)


def _typed(node: ScalarNode) -> str:
    """YAML's spellings of numbers and booleans (`1_000`, `yes`) as settings spell them."""
    from yaml.constructor import SafeConstructor

    value = SafeConstructor().construct_object(node)  # type: ignore[no-untyped-call, unused-ignore]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filled_in(value: SourceValue, environment: Mapping[str, str]) -> SourceValue:
    def replacement(match: re.Match[str]) -> str:
        if match["name"] in KINDS and match["default"] is not None:
            return match[0]  # A reference, which is read later.
        text = environment.get(match["name"], match["default"])
        if text is None:
            raise value.wrong(f"there is no environment variable {match['name']}, and no default after a colon")
        return text

    return SourceValue(value.name, _VARIABLE.sub(replacement, value.text), value.origin)
