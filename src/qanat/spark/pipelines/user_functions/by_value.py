"""Modules beside a pipeline, sent to Spark's processes with the functions that use them.

Spark sends a function of a module by the module's name; its processes do not have the pipeline's folder. Functions of
these modules are sent whole instead, also to the executors of a cluster.
"""

from __future__ import annotations

import sys

from qanat.spark.pipelines.user_functions.references import is_in_folder


def send_by_value(folder: str | None) -> None:
    """Send the functions of all imported modules in a folder whole, from now on."""
    from pyspark import cloudpickle

    if folder is None:
        return
    for name, module in list(sys.modules.items()):
        if name != "__main__" and module is not None and is_in_folder(module, folder):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call, unused-ignore]
