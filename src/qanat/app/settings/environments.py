"""Environments: what a broker is for, and the defaults that follow from it.

`dev` refuses nothing. `staging` and `production` have safer defaults, and are held to the same rules
(`rules.setup_rules`): `staging` warns where `production` refuses to start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Environment = Literal["dev", "staging", "production"]
NAMES: tuple[Environment, ...] = ("dev", "staging", "production")
SETTING = "environment"
_SAFER = {"auto.create.topics.enable": "false"}
PRESETS: Mapping[str, Mapping[str, str]] = {"dev": {}, "staging": _SAFER, "production": _SAFER}
"""Defaults of each environment; every other source wins over them."""
