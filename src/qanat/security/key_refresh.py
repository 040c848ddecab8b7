"""The refresh of an identity provider's keys: when they are fetched, and how long they count. Pure.

Keys are fetched anew every `refresh_s`, with back-off after a failure. Two cases in between:

Rule 1: a token with an unknown key asks for a fetch, because the provider may have rotated its keys. All such tokens
        together ask at most once in `ASK_PAUSE_S`, and the same key id once in `SAME_KEY_PAUSE_S`: no client can make
        the broker flood the provider.
Rule 2: while the provider does not answer, the last keys stay in force for `stale_max_s` from their fetch, no longer:
        a key that the provider has withdrawn does not count for ever.

Times are those of a monotonic clock, in seconds.
"""

from __future__ import annotations

from qanat.security.bearer_tokens import SigningKeys

ASK_PAUSE_S = 10.0
SAME_KEY_PAUSE_S = 60.0
_ASKED_MAX = 100
"""Unknown key ids that are remembered; more than these only ask more seldom by `ASK_PAUSE_S`."""


class KeyRefresh:
    """The keys of one provider."""

    def __init__(self, refresh_s: float, retry_s: float, retry_max_s: float, stale_max_s: float) -> None:
        self._refresh_s = refresh_s
        self._retry_s = retry_s
        self._retry_max_s = retry_max_s
        self._stale_max_s = stale_max_s
        self._keys: SigningKeys | None = None
        self._fetched_s = 0.0
        self._failures = 0
        self._ask_again_s = 0.0
        self._asked: dict[str, float] = {}
        """When an unknown key id may ask again."""
        self.due_s = 0.0
        """When the next fetch is due; at once in the beginning."""
        self.fault = "they were not fetched yet"
        """Why the last fetch failed; empty after a success."""

    def keys_at(self, now_s: float) -> SigningKeys | None:
        """The keys in force; None where there are none, or only those that are too old."""
        return self._keys if now_s - self._fetched_s < self._stale_max_s else None

    def fetched(self, keys: SigningKeys, now_s: float) -> None:
        self._keys, self._fetched_s = keys, now_s
        self._failures, self.fault = 0, ""
        self.due_s = now_s + self._refresh_s

    def failed(self, reason: str, now_s: float) -> None:
        self._failures += 1
        self.fault = reason
        self.due_s = now_s + min(self._retry_max_s, self._retry_s * 2 ** min(self._failures - 1, 30))

    def may_ask(self, key_id: str, now_s: float) -> bool:
        """Whether an unknown key is worth a fetch now (rule 1); a True counts as one."""
        if now_s < self._ask_again_s or now_s < self._asked.get(key_id, 0.0) or (self.fault and now_s < self.due_s):
            return False
        self._asked = {known: until_s for known, until_s in self._asked.items() if now_s < until_s}
        if len(self._asked) < _ASKED_MAX:
            self._asked[key_id] = now_s + SAME_KEY_PAUSE_S
        self._ask_again_s = now_s + ASK_PAUSE_S
        return True
