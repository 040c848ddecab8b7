"""Authorization of configurations: a topic's by its name, a group's by its id, all others by the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from qanat.api.configs.config_resources import ConfigResource, ResourceType
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

Resource = TypeVar("Resource", bound=ConfigResource)


class _Request(Protocol[Resource]):
    resources: list[Resource]


def authorize_resources(
    request: _Request[Resource],
    operation: Operation,
    access: AccessCheck,
    rows_of: Callable[[Any], list[Any]],
    row: Callable[[int, str | None, int, str], Any],
) -> Verdict:
    """The operation on each resource of the request; the others get a row with their error."""

    def is_allowed(resource: Resource) -> bool:
        match resource.resource_type:
            case ResourceType.TOPIC:
                return access.may_topic(operation, resource.resource_name)
            case ResourceType.GROUP:
                return access.may_group(operation, resource.resource_name)
            case _:
                return access.may_cluster(operation)

    def refused(resource: Resource) -> Any:
        return row(_denial_of(resource), None, resource.resource_type, resource.resource_name)

    request.resources, denied = access.split(request.resources, is_allowed)
    return access.grant_without(denied, rows_of, refused)


def _denial_of(resource: ConfigResource) -> ErrorCode:
    match resource.resource_type:
        case ResourceType.TOPIC:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        case ResourceType.GROUP:
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        case _:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
