"""Permissions on the cluster: what it is, where its replicas are, its rules and users."""

from __future__ import annotations

from typing import Any

from qanat.wire.kafka.messages import (
    alter_partition_reassignments,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    delete_acls,
    describe_acls,
    describe_cluster,
    describe_log_dirs,
    describe_user_scram_credentials,
    elect_leaders,
    list_partition_reassignments,
    sasl_authenticate,
    sasl_handshake,
    update_features,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.cast import Cast, Make, ask_each, prepared
from verify.conformance.play import Play
from verify.conformance.script import secured_conversation

UNKNOWN_USER = "User:nobody"


def _elect(cast: Cast, version: int) -> Any:
    named = [elect_leaders.TopicPartitions(name, [0]) for name in cast.topics]
    return elect_leaders.ElectLeadersRequest(0, named, 5_000)


def _reassign(cast: Cast, version: int) -> Any:
    rows = [alter_partition_reassignments.ReassignablePartition(0, None)]
    topics = [alter_partition_reassignments.ReassignableTopic(name, rows) for name in cast.topics]
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(5_000, topics=topics)


def _reassignments(cast: Cast, version: int) -> Any:
    topics = [list_partition_reassignments.ListPartitionReassignmentsTopics(name, [0]) for name in cast.topics]
    return list_partition_reassignments.ListPartitionReassignmentsRequest(5_000, topics)


def _log_dirs(cast: Cast, version: int) -> Any:
    topics = [describe_log_dirs.DescribableLogDirTopic(name, [0]) for name in cast.topics]
    return describe_log_dirs.DescribeLogDirsRequest(topics)


def _features(cast: Cast, version: int) -> Any:
    return update_features.UpdateFeaturesRequest(5_000, [update_features.FeatureUpdateKey("no.such.feature", 1)])


REQUESTS: dict[ApiKey, Make] = {
    ApiKey.DESCRIBE_CLUSTER: lambda cast, version: describe_cluster.DescribeClusterRequest(True),
    ApiKey.DESCRIBE_LOG_DIRS: _log_dirs,
    ApiKey.ELECT_LEADERS: _elect,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _reassignments,
    ApiKey.UPDATE_FEATURES: _features,
}


@secured_conversation
def permissions_on_the_cluster(play: Play) -> None:
    ask_each(play, prepared(play), REQUESTS)


SECURITY: dict[ApiKey, Make] = {
    ApiKey.DESCRIBE_ACLS: lambda cast, version: describe_acls.DescribeAclsRequest(2, None, 1, UNKNOWN_USER, None, 1, 1),
    ApiKey.CREATE_ACLS: lambda cast, version: create_acls.CreateAclsRequest(
        [create_acls.AclCreation(2, cast.topics[0], 3, UNKNOWN_USER, "*", 3, 3)]
    ),
    ApiKey.DELETE_ACLS: lambda cast, version: delete_acls.DeleteAclsRequest(
        [delete_acls.DeleteAclsFilter(2, cast.topics[3], 3, UNKNOWN_USER, None, 1, 1)]
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda cast, version: (
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
            [describe_user_scram_credentials.UserName("nobody")]
        )
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda cast, version: (
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            [alter_user_scram_credentials.ScramCredentialDeletion("nobody", 1)]
        )
    ),
}


@secured_conversation
def permissions_on_rules_and_users(play: Play) -> None:
    ask_each(play, prepared(play), SECURITY)


@secured_conversation
def permissions_that_everyone_has(play: Play) -> None:
    """What versions are served is for everyone; who is logged in cannot log in again."""
    unwanted: dict[ApiKey, Make] = {
        ApiKey.SASL_HANDSHAKE: lambda cast, version: sasl_handshake.SaslHandshakeRequest("PLAIN"),
        ApiKey.SASL_AUTHENTICATE: lambda cast, version: sasl_authenticate.SaslAuthenticateRequest(b"\0root\0secret"),
    }
    users = ("none", "literal", "denied", "root")
    ask_each(play, prepared(play), unwanted, users)
    for version in play.versions(ApiKey.API_VERSIONS):
        for user in users:
            request = api_versions.ApiVersionsRequest("tester", "1")
            answer = play.quietly(ApiKey.API_VERSIONS, version, request, user)
            play.note(f"ApiVersions v{version} [{user}]", {"error_code": answer.error_code})
