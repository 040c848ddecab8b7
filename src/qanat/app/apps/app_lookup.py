"""`module:app`: the name of an app on the command line."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

from qanat.client.app.app import App
from qanat.model.errors import InvalidSettingError, QanatError
from qanat.model.spelling import did_you_mean


class AppNotFoundError(InvalidSettingError):
    """A name on the command line stands for no app."""


def load_app(name: str) -> App:
    """Import a module from the current directory or the path, and return its app; raises in one sentence."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise AppNotFoundError(f"{name!r} names no app: write module:variable, as in `qanat run shop.handlers:app`")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as fault:
        if fault.name is not None and (module_name == fault.name or module_name.startswith(f"{fault.name}.")):
            raise AppNotFoundError(
                f"there is no module {fault.name!r} in {os.getcwd()} or on the Python path"
            ) from None
        raise AppNotFoundError(f"{module_name} cannot be imported: {fault}{_place(fault)}") from fault
    except QanatError:
        raise
    except Exception as fault:
        raise AppNotFoundError(
            f"{module_name} cannot be imported: {type(fault).__name__}: {fault}{_place(fault)}"
        ) from fault
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            apps = [one for one, value in vars(module).items() if isinstance(value, App)]
            known = f"it has {', '.join(apps)}" if apps else "it has no App"
            raise AppNotFoundError(f"{module_name} has no {part!r}: {known}{did_you_mean(part, apps)}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise AppNotFoundError(f"{name} is {type(found).__name__}, not an App")
    if not found.handlers:
        raise AppNotFoundError(f"{name} has no handlers: decorate a function with @{attribute}.stream(...)")
    return found


def _place(fault: BaseException) -> str:
    """File and line of the user's code, where it failed."""
    frames = [one for one in traceback.extract_tb(fault.__traceback__) if "importlib" not in one.filename]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if len(frames) > 1 else ""
