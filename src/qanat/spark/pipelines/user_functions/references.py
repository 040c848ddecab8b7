"""A user's function found by its name, `module:function`, and its signature checked before Spark starts.

Modules are sought in the folder of the pipeline's file first, then where Python finds installed ones.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from qanat.spark.pipelines.document import PipelineError, nearest


def find_function(reference: str, folder: str | None, where: str) -> Callable[..., Any]:
    """The function of a reference; raises `PipelineError` where there is none."""
    module_name, _, name = reference.partition(":")
    module = _imported(module_name, folder, where)
    found: Any = module
    for part in name.split("."):
        known = [one for one in vars(found) if not one.startswith("_")]
        if not hasattr(found, part):
            raise PipelineError(f"{where}: {module_name} has no {name}{nearest(part, known)}")
        found = getattr(found, part)
    if not callable(found):
        raise PipelineError(f"{where}: {reference} is {type(found).__name__}, not a function")
    function: Callable[..., Any] = found
    return function


def check_call(
    function: Callable[..., Any], reference: str, positional: Sequence[str], options: Mapping[str, object], where: str
) -> None:
    """Raise `PipelineError` where a function cannot be called with these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # Functions written in C may have none.
    try:
        signature.bind(*positional, **options)
    except TypeError as fault:
        call = ", ".join([*positional, *(f"{name}=…" for name in options)])
        raise PipelineError(f"{where}: {reference} is called with ({call}), but takes {signature}: {fault}") from None


def described(fault: BaseException, reference: str) -> str:
    """An exception of a user's function as text on one line, with file and line in the user's module.

    >>> described(ValueError("it is\\nnegative"), "shop:score")
    'ValueError: it is negative'
    """
    text = " ".join(f"{type(fault).__name__}: {fault}".split()).removesuffix(":")
    frames = traceback.extract_tb(fault.__traceback__)
    stem = reference.partition(":")[0].rpartition(".")[2]
    own = [frame for frame in frames if Path(frame.filename).stem == stem]
    own = own or [frame for frame in frames[1:] if Path(frame.filename).parent not in _IMPORTLIB]
    return f"{text} ({Path(own[-1].filename).name} line {own[-1].lineno})" if own else text


_IMPORTLIB = (Path(importlib.__file__).parent, Path(importlib.__file__).parent / "metadata", Path("."))
"""Its frames say where Python looked for a module or a name of it, and nothing about the user's code."""


def is_in_folder(module: ModuleType, folder: str) -> bool:
    """Whether a module's file is in the folder of a pipeline, and not installed in an environment below it."""
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    path, parent = Path(file).resolve(), Path(folder).resolve()
    return path.is_relative_to(parent) and "site-packages" not in path.parts


def _imported(name: str, folder: str | None, where: str) -> ModuleType:
    top = name.partition(".")[0]
    if folder is not None and _is_there(Path(folder), top):
        place = str(Path(folder).resolve())
        if place not in sys.path:
            # First, as Python does with the folder of a script.
            sys.path.insert(0, place)
        already = sys.modules.get(top)
        if already is not None and getattr(already, "__file__", None) and not is_in_folder(already, folder):
            raise PipelineError(
                f"{where}: {top} in {place} is hidden by the module {top} of {already.__file__}: rename it"
            )
    try:
        return import_module(name)
    except ModuleNotFoundError as fault:
        if fault.name is not None and (name == fault.name or name.startswith(f"{fault.name}.")):
            beside = f", neither in {folder} nor installed" if folder is not None else ""
            raise PipelineError(f"{where}: there is no module {fault.name}{beside}") from None
        raise PipelineError(f"{where}: module {name} needs {fault.name}, which is not installed") from None
    except Exception as fault:  # noqa: BLE001 - a user's module may raise anything
        raise PipelineError(f"{where}: module {name} cannot be imported: {described(fault, name)}") from None


def _is_there(folder: Path, top: str) -> bool:
    return (folder / f"{top}.py").is_file() or any((folder / top).glob("*.py"))
