"""UpdateFeatures: refused updates; updates with an effect differ by system."""

from __future__ import annotations

from qanat.wire.kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import conversation

UPDATE = ApiKey.UPDATE_FEATURES


def updated(*features: tuple[str, int], is_dry_run: bool = False) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(10_000, [FeatureUpdateKey(*feature) for feature in features], is_dry_run)


@conversation
def features_in_every_version(play: Play) -> None:
    for version in play.versions(UPDATE):
        play.exchange(UPDATE, version, updated(), "nothing")
        play.exchange(UPDATE, version, updated(("no.such.feature", 1)), "a feature that is not there")
        play.exchange(UPDATE, version, updated(("group.version", 99)), "a level that is not there")
        play.exchange(UPDATE, version, updated(("group.version", 1)), "as it is")
        if version >= 1:
            play.exchange(UPDATE, version, updated(("no.such.feature", 1), is_dry_run=True), "a dry run")
