"""Guards of what concerns the cluster: configurations, log directories, producer ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qanat.api.allowed_operations import ON_CLUSTER
from qanat.api.authorization import GRANTED, AccessCheck, AuthorizationRule, Denied, Granted, Verdict, sifted
from qanat.api.cluster.get_replica_log_info import refused
from qanat.api.configs.config_resources import ResourceType
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import CLUSTER, Operation, ResourceKind
from qanat.wire.kafka.messages import (
    alter_partition_reassignments,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    elect_leaders,
    get_replica_log_info,
    init_producer_id,
    list_partition_reassignments,
    update_features,
)

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def authorize_nothing(request: Any, access: AccessCheck) -> Verdict:
    """For what everybody may ask."""
    return GRANTED


def authorize_describe_configs(request: describe_configs.DescribeConfigsRequest, access: AccessCheck) -> Verdict:
    kept, denied = sifted(request.resources, lambda one: _may(access, Operation.DESCRIBE_CONFIGS, one))
    request.resources = kept

    def complete(response: describe_configs.DescribeConfigsResponse) -> describe_configs.DescribeConfigsResponse:
        response.results += [
            describe_configs.DescribeConfigsResult(_code(one), None, one.resource_type, one.resource_name)
            for one in denied
        ]
        return response

    return Granted(complete) if denied else GRANTED


def alters_configs(row: type[Any]) -> AuthorizationRule:
    """The guard of both APIs that change configurations; `row` is what one refusal is."""

    def guard(request: Any, access: AccessCheck) -> Verdict:
        kept, denied = sifted(request.resources, lambda one: _may(access, Operation.ALTER_CONFIGS, one))
        request.resources = kept

        def complete(response: Any) -> Any:
            response.responses += [row(_code(one), None, one.resource_type, one.resource_name) for one in denied]
            return response

        return Granted(complete) if denied else GRANTED

    return guard


def _may(access: AccessCheck, operation: Operation, resource: Any) -> bool:
    """Topics by their names; everything else belongs to the cluster, or to a group."""
    match resource.resource_type:
        case ResourceType.TOPIC:
            return access.may_topic(operation, resource.resource_name)
        case ResourceType.GROUP:
            return access.may_group(operation, resource.resource_name)
        case _:
            return access.may_cluster(operation)


def _code(resource: Any) -> ErrorCode:
    match resource.resource_type:
        case ResourceType.TOPIC:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        case ResourceType.GROUP:
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        case _:
            return _DENIED


def authorize_describe_log_dirs(request: describe_log_dirs.DescribeLogDirsRequest, access: AccessCheck) -> Verdict:
    if access.may_cluster(Operation.DESCRIBE):
        return GRANTED
    return Denied(describe_log_dirs.DescribeLogDirsResponse(error_code=_DENIED, results=[]))


def authorize_replica_log_info(request: get_replica_log_info.GetReplicaLogInfoRequest, access: AccessCheck) -> Verdict:
    """Brokers may; and so may operators that only look, as with log directories."""
    if access.may_cluster(Operation.CLUSTER_ACTION) or access.may_cluster(Operation.DESCRIBE):
        return GRANTED
    return Denied(refused(request, _DENIED))


def needs_cluster(operation: Operation, refusal: Callable[[], Any]) -> AuthorizationRule:
    """The guard of an API that asks one thing of the cluster as a whole; `refusal` makes its answer."""

    def guard(request: Any, access: AccessCheck) -> Verdict:
        return GRANTED if access.may_cluster(operation) else Denied(refusal())

    return guard


authorize_elect_leaders = needs_cluster(
    Operation.ALTER, lambda: elect_leaders.ElectLeadersResponse(error_code=_DENIED, replica_election_results=[])
)
authorize_alter_reassignments = needs_cluster(
    Operation.ALTER,
    lambda: alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        error_code=_DENIED, error_message=None, responses=[]
    ),
)
authorize_update_features = needs_cluster(
    Operation.ALTER,
    lambda: update_features.UpdateFeaturesResponse(error_code=_DENIED, error_message=None, results=[]),
)
authorize_list_reassignments = needs_cluster(
    Operation.DESCRIBE,
    lambda: list_partition_reassignments.ListPartitionReassignmentsResponse(
        error_code=_DENIED, error_message=None, topics=[]
    ),
)


def authorize_describe_cluster(request: describe_cluster.DescribeClusterRequest, access: AccessCheck) -> Verdict:
    if not request.include_cluster_authorized_operations:
        return GRANTED

    def complete(response: describe_cluster.DescribeClusterResponse) -> describe_cluster.DescribeClusterResponse:
        may = access.may_cluster(Operation.DESCRIBE)
        response.cluster_authorized_operations = (
            access.bits(ResourceKind.CLUSTER, CLUSTER.name, ON_CLUSTER) if may else 0
        )
        return response

    return Granted(complete)


def authorize_init_producer_id(request: init_producer_id.InitProducerIdRequest, access: AccessCheck) -> Verdict:
    """A plain idempotent producer needs no more than somewhere to write to (KIP-679)."""
    if request.transactional_id is not None:
        if access.may(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, request.transactional_id):
            return GRANTED
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return Denied(init_producer_id.InitProducerIdResponse(error_code=code, producer_epoch=-1))
    topics = access.broker.metadata.image.topics
    if access.may_cluster(Operation.IDEMPOTENT_WRITE) or any(
        access.may_topic(Operation.WRITE, name) for name in topics
    ):
        return GRANTED
    return Denied(init_producer_id.InitProducerIdResponse(error_code=_DENIED, producer_epoch=-1))
