"""Error responses of the APIs for users and ACLs that have the error in every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qanat.api.request_context import RequestContext
from qanat.wire.kafka.messages import alter_user_scram_credentials, create_acls, delete_acls
from qanat.wire.kafka.registry import ApiKey


def _create_acls(request: create_acls.CreateAclsRequest, error: int, context: RequestContext) -> Any:
    return create_acls.CreateAclsResponse(
        results=[create_acls.AclCreationResult(error, error_message=None) for _ in request.creations]
    )


def _delete_acls(request: delete_acls.DeleteAclsRequest, error: int, context: RequestContext) -> Any:
    return delete_acls.DeleteAclsResponse(
        filter_results=[delete_acls.DeleteAclsFilterResult(error, error_message=None) for _ in request.filters]
    )


def _alter_user_scram_credentials(
    request: alter_user_scram_credentials.AlterUserScramCredentialsRequest, error: int, context: RequestContext
) -> Any:
    deleted, altered = [one.name for one in request.deletions], [one.name for one in request.upsertions]
    row = alter_user_scram_credentials.AlterUserScramCredentialsResult
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[row(name, error, error_message=None) for name in dict.fromkeys(deleted + altered)]
    )


BY_ROWS: dict[ApiKey, Callable[[Any, int, RequestContext], Any]] = {
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
}
