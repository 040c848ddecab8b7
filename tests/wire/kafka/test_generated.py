"""What is checked in is what the schemas give today, and importing the registry stays cheap."""

from __future__ import annotations

import subprocess
import sys

from tools.codec import api_source, record_source
from tools.generate_codec import render, stale

from qanat.wire.kafka.registry import APIS, ApiKey


def test_the_checked_in_codec_is_what_the_schemas_say() -> None:
    assert stale(render()) == [], "run make codec"


def test_the_registry_imports_no_message() -> None:
    program = (
        "import sys, qanat.wire.kafka.registry, qanat.wire.kafka.headers, qanat.wire.kafka.records;"
        "print(*sorted(name for name in sys.modules if name.startswith('qanat.wire.kafka.messages.')))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert loaded == ["qanat.wire.kafka.messages.api_table", "qanat.wire.kafka.messages.record_table"]


def test_the_codec_does_not_need_kio() -> None:
    program = (
        "import sys; sys.modules['kio'] = None;"
        "from qanat.wire.kafka.registry import APIS;"
        "print(sum(hasattr(api.codec, 'read_request') for api in APIS.values()))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert int(loaded) == len(APIS) == len(api_source.all_apis())


def test_every_key_of_the_protocol_has_a_name() -> None:
    assert {key.value for key in ApiKey} == set(range(94))
    assert ApiKey.PRODUCE.value == 0
    assert ApiKey(78).name == "SHARE_FETCH"


def test_every_record_key_has_a_value_and_a_kind_of_its_own() -> None:
    for module in record_source.record_modules().values():
        names = [record["name"] for record in module["records"]]
        kinds = [record["kind"] for record in module["records"] if "kind" in record]
        assert len(set(kinds)) == len(kinds) == len(names) / 2
        assert {name.removesuffix("Key") for name in names if name.endswith("Key")} == {
            name.removesuffix("Value") for name in names if name.endswith("Value")
        }
