"""The generated pages of docs/reference are those of today's code."""

from __future__ import annotations

from tools.reference_pages.__main__ import FOLDER, main, pages


def test_the_reference_pages_are_up_to_date() -> None:
    assert main(["--check"]) == 0, "run: python -m tools.reference_pages"


def test_every_command_operation_and_name_has_its_place() -> None:
    text = {file.relative_to(FOLDER).as_posix(): page for file, page in pages().items()}

    assert "## qanat topic create" in text["cli/topic.md"]
    assert "qanat topic create orders -p 12" in text["cli/topic.md"]
    assert "### POST /produce" in text["http-api.md"]
    assert "### QueueConsumer" in text["client-api.md"]
    assert " at 0x" not in text["client-api.md"]
