"""Authorization of configurations: a topic's by its name, a group's by its id, all others by the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from qanat.api.configs.config_resources import ConfigResource, ResourceType
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck

Resource = TypeVar("Resource", bound=ConfigResource)


def split_resources(
    resources: list[Resource], operation: Operation, access: AccessCheck
) -> tuple[list[Resource], list[Resource]]:
    """The resources on which the caller may do this, and the others."""

    def is_allowed(resource: Resource) -> bool:
        match resource.resource_type:
            case ResourceType.TOPIC:
                return access.may_topic(operation, resource.resource_name)
            case ResourceType.GROUP:
                return access.may_group(operation, resource.resource_name)
            case _:
                return access.may_cluster(operation)

    return access.split(resources, is_allowed)


def denial_of(resource: ConfigResource) -> ErrorCode:
    match resource.resource_type:
        case ResourceType.TOPIC:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        case ResourceType.GROUP:
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        case _:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
