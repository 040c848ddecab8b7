"""What the options of a read say about values: `valueFormat` and what belongs to it."""

from __future__ import annotations

from pathlib import Path

from qanat.spark.formats.value_format import FORMATS, MODES, ValueFormat
from qanat.spark.options.option_reader import Given, OptionError


def value_format(given: Given) -> ValueFormat | None:
    """How values are read; None leaves them as they are. Files that options name are read here, on the driver."""
    form = given.choice("valueFormat", {name: name for name in FORMATS}, None)
    schema = _one_of(given, "valueSchema", "valueSchemaFile")
    descriptor_path, message = given.text("protobufDescriptorFile"), given.text("protobufMessage")
    is_framed = given.choice("valueFraming", {"none": False, "confluent": True}, False)
    delimiter = given.convert("csvDelimiter", "one character", _character, ",")
    mode = given.choice("mode", {name.lower(): name for name in MODES}, None)
    if form is None:
        wanted = {"valueSchema": schema, "protobufMessage": message, "mode": mode}
        for name, value in wanted.items():
            if value is not None:
                raise OptionError(f"option {name} needs option valueFormat: one of {', '.join(FORMATS)}")
        return None
    if form in ("json", "csv", "avro") and not schema:
        what = "the schema in Avro's JSON" if form == "avro" else 'the columns, such as "id bigint, name string"'
        raise OptionError(f"valueFormat={form} needs option valueSchema (or valueSchemaFile): {what}")
    if form == "protobuf" and (descriptor_path is None or message is None):
        raise OptionError("valueFormat=protobuf needs options protobufDescriptorFile and protobufMessage")
    if is_framed and form not in ("avro", "protobuf"):
        raise OptionError(f"option valueFraming is for avro and protobuf, not for {form}")
    descriptor = b"" if descriptor_path is None else _content("protobufDescriptorFile", descriptor_path)
    return ValueFormat(form, schema or "", descriptor, message or "", is_framed, delimiter, mode or "PERMISSIVE")


def _one_of(given: Given, name: str, file_name: str) -> str | None:
    text, path = given.text(name), given.text(file_name)
    if text is not None and path is not None:
        raise OptionError(f"options {name} and {file_name} say the same: give one of them")
    if path is None:
        return text
    try:
        return _content(file_name, path).decode()
    except UnicodeDecodeError:
        raise OptionError(f"option {file_name} {path}: it is no text in UTF-8") from None


def _content(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as fault:
        raise OptionError(f"option {name} {path}: {fault.strerror}") from None


def _character(text: str) -> str:
    # Blanks around an option are cut off; a tab is one.
    text = {r"\t": "\t", "": "\t"}.get(text, text)
    if len(text) != 1 or text in '"\r\n':
        raise ValueError(text)
    return text
