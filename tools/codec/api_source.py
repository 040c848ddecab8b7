"""APIs between brokers that kio does not list yet, from `apis.json`, in the notation of `record_source`.

GetReplicaLogInfo is KIP-966's; `directory_id`, `log_generation` and `damage` are ours, as tagged fields.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from tools.codec import kio_source
from tools.codec.record_source import message
from tools.codec.schema import Api

SCHEMAS = Path(__file__).with_name("apis.json")


@cache
def apis() -> tuple[Api, ...]:
    return tuple(
        Api(int(key), api["module"], message(api["request"]), message(api["response"]))
        for key, api in json.loads(SCHEMAS.read_text()).items()
    )


def all_apis() -> tuple[Api, ...]:
    """Every API that has a module, wherever its schema comes from."""
    return (*kio_source.apis(), *apis())


def api_keys() -> dict[int, str]:
    """Every key of the protocol with its name, served or not."""
    return {**kio_source.api_keys(), **{api.key: api.module for api in apis()}}
