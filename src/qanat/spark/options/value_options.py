"""Options of typed values: `valueFormat` and its schema, framing, delimiter and mode."""

from __future__ import annotations

from pathlib import Path

from qanat.spark.formats.value_format import FORMATS, MODES, ValueFormat
from qanat.spark.options.option_reader import OptionError, OptionReader


def value_format(reader: OptionReader) -> ValueFormat | None:
    """The format of values; None for plain bytes. Reads the files that options name, on the driver."""
    form = reader.choice("valueFormat", {name: name for name in FORMATS}, None)
    schema = _one_of(reader, "valueSchema", "valueSchemaFile")
    descriptor_path, message = reader.text("protobufDescriptorFile"), reader.text("protobufMessage")
    is_framed = reader.choice("valueFraming", {"none": False, "confluent": True}, False)
    delimiter = reader.convert("csvDelimiter", "one character", _character, ",")
    mode = reader.choice("mode", {name.lower(): name for name in MODES}, None)
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


def _one_of(reader: OptionReader, name: str, file_name: str) -> str | None:
    text, path = reader.text(name), reader.text(file_name)
    if text is not None and path is not None:
        raise OptionError(f"options {name} and {file_name} are the same setting: give one of them")
    if path is None:
        return text
    try:
        return _content(file_name, path).decode()
    except UnicodeDecodeError:
        raise OptionError(f"option {file_name} {path}: it is not UTF-8 text") from None


def _content(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as fault:
        raise OptionError(f"option {name} {path}: {fault.strerror}") from None


def _character(text: str) -> str:
    # Blanks around an option are stripped; a tab is one.
    text = {r"\t": "\t", "": "\t"}.get(text, text)
    if len(text) != 1 or text in '"\r\n':
        raise ValueError(text)
    return text
