"""ApiVersions (18): the APIs and versions that this broker serves; the first request of any client.

v0-2  plain; v1 throttle time, v2 nothing new
v3    flexible; client software name and version; supported and finalized features
v4    features with a minimum of 0 may be named (KIP-1022)

The answer's header is always version 0. A request of an unknown version is answered in version 0 with error 35 and the
range of this API alone (KIP-511).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qanat.api.api_table import SERVED
from qanat.api.caller import SoftwareNote
from qanat.api.request_context import RequestContext
from qanat.cluster import keys
from qanat.cluster.format_levels import FEATURE, NEWEST, OLDEST
from qanat.model.error_codes import ErrorCode
from qanat.transactions.records import EPOCH_PER_TRANSACTION
from qanat.wire.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.staged import FEATURE as STAGING

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

FEATURES = {"group.version": 1, "share.version": 1, "transaction.version": int(EPOCH_PER_TRANSACTION)}
"""The newest level of each feature, which is also the finalized one.

A client that finds level 2 of `transaction.version` adds partitions by writing to them, and expects a new epoch with
every end: Produce 12, TxnOffsetCommit 5 and EndTxn 5 must serve that.
"""
_STAGING = 1
"""The level of staged uploads (`wire.staged_upload`): each broker takes them or not, so it is not finalized."""
_FROM_ZERO_FROM = 4
"""Older versions cannot name features that begin at 0."""
_SHOWN = 100
"""Characters that are kept of what a client says of its software."""
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""A client's software name and version, as Kafka accepts them."""


def authorize(request: ApiVersionsRequest, access: AccessCheck) -> Verdict:
    """Allowed for every client."""
    return access.grant()


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.version >= 3 and not _is_named_well(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if isinstance(context.caller, SoftwareNote):
        software = request.client_software_name, request.client_software_version
        context.caller.client_software = software[0][:_SHOWN], software[1][:_SHOWN]
    image = context.broker.metadata.image
    return ApiVersionsResponse(
        api_keys=_served(),
        supported_features=_supported(context.version),
        finalized_features_epoch=image.revisions.get(keys.FORMAT, 0),
        finalized_features=[
            FinalizedFeatureKey(name, level, level) for name, level in {FEATURE: image.format_level, **FEATURES}.items()
        ],
    )


def _supported(version: int) -> list[SupportedFeatureKey]:
    """The supported levels of each feature; older clients do not get those that begin at 0."""
    known = [SupportedFeatureKey(FEATURE, OLDEST, NEWEST), SupportedFeatureKey(STAGING, _STAGING, _STAGING)]
    if version >= _FROM_ZERO_FROM:
        known += [SupportedFeatureKey(name, 0, newest) for name, newest in FEATURES.items()]
    return known


def _is_named_well(request: ApiVersionsRequest) -> bool:
    return all(_NAME.fullmatch(name) for name in (request.client_software_name, request.client_software_version))


def _served() -> list[ApiVersion]:
    return [ApiVersion(key, served.advertised_first, served.last_version) for key, served in sorted(SERVED.items())]


def unsupported(error_code: ErrorCode) -> ApiVersionsResponse:
    """The answer to a version that is newer than ours."""
    own = SERVED[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=error_code, api_keys=[ApiVersion(ApiKey.API_VERSIONS, own.advertised_first, own.last_version)]
    )
