"""UpdateFeatures (57): raise the cluster's format level.

v0   flexible from the start    v1   kinds of upgrade instead of a flag; dry runs    v2   one error for all

The one feature that can be changed is `format.level`, and it goes up only; `group.version` and its like stay as they
are.
"""

from __future__ import annotations

from qanat.cluster.format_levels import FEATURE, LevelPlan, decide_level
from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode
from qanat.servers.kafka.acts import TIMED_OUT, attempt, carry_through
from qanat.servers.kafka.api_versions import FEATURES
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_RESULTS_UNTIL = 1


async def handle(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    updates = request.feature_updates
    if len({update.feature for update in updates}) < len(updates):
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="A feature is named twice.", results=[]
        )
    outcomes: list[LevelPlan | Rejection | None] = [TIMED_OUT for _ in updates]

    async def update_all() -> None:
        for place, update in enumerate(updates):
            outcomes[place] = await _update(update, context, is_dry_run=request.validate_only)

    await carry_through(context.broker, update_all(), request.timeout_ms)
    return _response(updates, outcomes, context)


async def _update(update: FeatureUpdateKey, context: Context, *, is_dry_run: bool) -> LevelPlan | Rejection | None:
    level = update.max_version_level
    if update.feature == FEATURE:
        broker = context.broker
        return await attempt(broker.carry_out(lambda image: decide_level(image, level), is_dry_run=is_dry_run))
    if FEATURES.get(update.feature) == level:
        return None
    if update.feature in FEATURES:
        why = f"it is {FEATURES[update.feature]} in every version of Qanat"
    else:
        why = f"there is no such feature; there are {', '.join([FEATURE, *FEATURES])}"
    return Rejection(
        ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {update.feature}: {why}."
    )


def _response(
    updates: list[FeatureUpdateKey], outcomes: list[LevelPlan | Rejection | None], context: Context
) -> UpdateFeaturesResponse:
    first = next((one for one in outcomes if isinstance(one, Rejection)), None)
    if context.version > _RESULTS_UNTIL:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.NONE if first is None else first.code,
            error_message=None if first is None else first.message,
            results=[],
        )
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(update.feature, *_told(outcome))
            for update, outcome in zip(updates, outcomes, strict=True)
        ],
    )


def _told(outcome: LevelPlan | Rejection | None) -> tuple[ErrorCode, str | None]:
    return (outcome.code, outcome.message) if isinstance(outcome, Rejection) else (ErrorCode.NONE, None)
