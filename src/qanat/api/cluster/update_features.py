"""UpdateFeatures (57): raise the cluster's format level.

v0   flexible from the start    v1   kinds of upgrade instead of a flag; dry runs    v2   no results

Only `format.level` can change, and only upward; `group.version` and the others are fixed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.admin_tasks import TIMED_OUT, attempt, run_to_end
from qanat.api.cluster.api_versions import FEATURES
from qanat.api.cluster.authorization import DENIED, needs_cluster
from qanat.api.request_context import RequestContext
from qanat.cluster.format_levels import FEATURE, LevelPlan, decide_level
from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_RESULTS_UNTIL = 1


def authorize(request: UpdateFeaturesRequest, access: AccessCheck) -> Verdict:
    """ALTER on the cluster."""
    refused = UpdateFeaturesResponse(error_code=DENIED, error_message=None, results=[])
    return needs_cluster(Operation.ALTER, access, refused)


async def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    names = [update.feature for update in request.feature_updates]
    if len(set(names)) < len(names):
        return _refused(Rejection(ErrorCode.INVALID_REQUEST, "A feature is named twice."))
    for update in request.feature_updates:
        if update.feature != FEATURE and FEATURES.get(update.feature) != update.max_version_level:
            return _refused(_unchangeable(update))
    wanted = next((one.max_version_level for one in request.feature_updates if one.feature == FEATURE), None)
    outcome: LevelPlan | Rejection | None = None
    if wanted is not None:
        outcome = TIMED_OUT

        async def update_level(level: int) -> None:
            nonlocal outcome
            outcome = await _update(level, context, is_dry_run=request.validate_only)

        await run_to_end(context.broker, update_level(wanted), request.timeout_ms)
    if isinstance(outcome, Rejection):
        return _refused(outcome)
    results = names if context.version <= _RESULTS_UNTIL else []
    return UpdateFeaturesResponse(
        error_message=None, results=[UpdatableFeatureResult(name, error_message=None) for name in results]
    )


async def _update(level: int, context: RequestContext, *, is_dry_run: bool) -> LevelPlan | Rejection:
    decided = context.broker.metadata_changes.carry_out(lambda image: decide_level(image, level), is_dry_run=is_dry_run)
    return await attempt(decided)


def _unchangeable(update: FeatureUpdateKey) -> Rejection:
    if update.feature in FEATURES:
        why = f"it is {FEATURES[update.feature]} in every version of Qanat"
    else:
        why = f"there is no such feature; there are {', '.join([FEATURE, *FEATURES])}"
    what = f"Invalid update version {update.max_version_level} for feature {update.feature}: {why}."
    return Rejection(ErrorCode.INVALID_UPDATE_VERSION, what)


def _refused(rejection: Rejection) -> UpdateFeaturesResponse:
    """One refusal leaves everything unchanged."""
    return UpdateFeaturesResponse(error_code=rejection.code, error_message=rejection.message, results=[])
