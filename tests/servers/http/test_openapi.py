"""The OpenAPI document: it matches the answers of every operation, and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.http.serving import ServedNode

EXAMPLES = os.environ.get("QANAT_SCHEMA_EXAMPLES", "5")
"""Requests drawn for each operation in `make test-long`; more of them: QANAT_SCHEMA_EXAMPLES=200."""
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)


def test_every_operation_is_documented_once(node: ServedNode) -> None:
    document = node.get("/openapi.json").json
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]

    assert document["openapi"] == "3.1.0"
    assert len(names) == len(set(names)) > 30
    assert {"/produce", "/consume", "/subscribe", "/api/v1/topics", "/health"} <= set(document["paths"])
    assert all(operation["summary"] for methods in document["paths"].values() for operation in methods.values())


def test_every_query_parameter_says_what_it_means_also_one_that_several_operations_share(node: ServedNode) -> None:
    document = node.get("/openapi.json").json
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    queries = [one for operation in operations for one in operation.get("parameters", ()) if one["in"] == "query"]

    assert len(queries) > 50
    assert [one["name"] for one in queries if not one["description"]] == []


def test_the_page_for_people_fetches_nothing_from_elsewhere(node: ServedNode) -> None:
    page = node.get("/docs")
    text = page.body.decode()

    assert page.headers["content-type"].startswith("text/html")
    assert "/api/v1/groups/{group}/offsets/reset" in text
    assert re.findall(r"(?:src|href)=['\"]?(?:https?:)?//[^ >]*", text) == []
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_what_is_asked_is_counted(node: ServedNode) -> None:
    node.get("/health/live")
    node.get("/nowhere")

    text = node.get("/metrics").body.decode()

    assert re.search(r'qanat_http_requests_total{operation="health_live",status="200"} \d', text)
    assert re.search(r'qanat_http_requests_total{operation="none",status="404"} \d', text)
    assert "qanat_http_request_seconds_count" in text


@pytest.mark.parametrize("examples", ["2", pytest.param(EXAMPLES, marks=pytest.mark.long)])
def test_no_drawn_request_finds_an_answer_that_the_document_does_not_know(
    node: ServedNode, tmp_path: Path, examples: str
) -> None:
    """Property-based: schemathesis draws requests from the document, good ones and bad ones."""
    node.post("/api/v1/topics", {"name": "0", "partitions": 1})
    command = [
        str(Path(sys.executable).with_name("st")),
        "run",
        f"{node.url}/openapi.json",
        "--phases=fuzzing",
        f"--max-examples={examples}",
        f"--checks={','.join(CHECKS)}",
        # Streams have no end.
        "--exclude-path-regex=(stream|ws)$",
        "--generation-deterministic",
        "--suppress-health-check=all",
        "--no-color",
    ]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)

    assert done.returncode == 0, done.stdout[-6000:]
