"""The profile file: named clusters in `$XDG_CONFIG_HOME/qanat/config.yaml`, else in `~/.config`.

    profile: staging            # the one in use where none is named
    profiles:
      local: {bootstrap: "127.0.0.1:9092"}
      staging: {bootstrap: "kafka-1:9092,kafka-2:9092", timeout: 30, settings: {security.protocol: SSL}}

Rule 1: an unknown name or setting is an error that lists the known ones.
Rule 2: commands read the file only if it decides something; only `qanat profile` writes it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path

from qanat.model.errors import InvalidSettingError

_KNOWN = ("bootstrap", "timeout", "settings")


@dataclass(frozen=True, slots=True)
class Profile:
    """A named cluster and how to reach it."""

    bootstrap: str
    timeout: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Client settings, as with -X; secrets may be among them."""


@dataclass(slots=True)
class Profiles:
    """The content of the file."""

    profiles: dict[str, Profile] = field(default_factory=dict)
    chosen: str | None = None

    def named(self, name: str, origin: str) -> Profile:
        if name not in self.profiles:
            matches = get_close_matches(name, self.profiles, n=1)
            there = f"there are {', '.join(self.profiles)}" if self.profiles else "there are none"
            hint = (
                f"did you mean {matches[0]}?" if matches else f"{there}; add it: qanat profile set {name} --bootstrap …"
            )
            raise InvalidSettingError(f"there is no profile {name} ({origin}); {hint}")
        return self.profiles[name]


def profiles_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The path of the file, whether it exists or not."""
    folder = environment.get("XDG_CONFIG_HOME", "")
    # The XDG specification says to ignore a relative path.
    root = Path(folder) if os.path.isabs(folder) else Path("~/.config").expanduser()
    return root / "qanat" / "config.yaml"


def read_profiles(path: Path) -> Profiles:
    """The profiles of the file, none where there is no file; raises `InvalidSettingError` where it is malformed."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        return Profiles()
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise InvalidSettingError(f"cannot read {path}: {reason}") from None
    except (yaml.YAMLError, RecursionError) as fault:
        raise InvalidSettingError(f"{path} is not YAML: {str(fault).splitlines()[0]}") from None
    if not isinstance(found, dict) or not isinstance(found.get("profiles") or {}, dict):
        raise InvalidSettingError(f"{path} should hold profiles: {{name: {{bootstrap: host:port}}}}")
    unknown = [str(name) for name in found if name not in ("profile", "profiles")]
    if unknown:
        raise InvalidSettingError(f"{path}: unknown setting {unknown[0]!r}; there are profile and profiles")
    chosen = found.get("profile")
    profiles = {str(name): _profile(str(name), one, path) for name, one in (found.get("profiles") or {}).items()}
    return Profiles(profiles, None if chosen is None else str(chosen))


def write_profiles(path: Path, content: Profiles) -> None:
    """Replace the whole file."""
    import yaml

    profiles = {
        name: {key: value for key, value in asdict(one).items() if value not in (None, {})}
        for name, one in content.profiles.items()
    }
    document = ({"profile": content.chosen} if content.chosen is not None else {}) | {"profiles": profiles}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".config-", delete=False, encoding="utf-8") as file:
        file.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    os.replace(file.name, path)


def _profile(name: str, found: object, path: Path) -> Profile:
    if not isinstance(found, dict):
        raise InvalidSettingError(f"{path}: profile {name} should read {{bootstrap: host:port}}")
    for key in found:
        if key not in _KNOWN:
            raise InvalidSettingError(
                f"{path}: profile {name} has an unknown setting {key!r}; there are {', '.join(_KNOWN)}"
            )
    bootstrap, timeout = found.get("bootstrap"), found.get("timeout")
    if not isinstance(bootstrap, str) or not bootstrap:
        raise InvalidSettingError(f"{path}: profile {name} needs a bootstrap, host:port")
    if timeout is not None and (not isinstance(timeout, int | float) or isinstance(timeout, bool)):
        raise InvalidSettingError(f"{path}: the timeout of profile {name} is {timeout!r}, not seconds")
    settings = found.get("settings") or {}
    if not isinstance(settings, dict) or not all(isinstance(one, str | int | float) for one in settings.values()):
        raise InvalidSettingError(f"{path}: the settings of profile {name} should read {{name: value}}")
    texts = {str(key): str(one).lower() if isinstance(one, bool) else str(one) for key, one in settings.items()}
    return Profile(bootstrap, None if timeout is None else float(timeout), texts)
