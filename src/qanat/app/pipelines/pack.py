"""`qanat pipeline pack`: an archive of Qanat for the executors of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError


def pack(archive: Annotated[Path, Parameter(name="archive")], /) -> None:
    """Pack Qanat with compiled modules and dependencies for the executors of a cluster.

        qanat pipeline pack qanat-lib.tar.gz

    Prints the settings that Spark needs, as options of `spark-submit` and of `qanat pipeline run`.

    Parameters
    ----------
    archive:
        The file to write; its name ends in .tar.gz.
    """
    from qanat.spark.shipping import pack as write
    from qanat.spark.shipping import settings

    if not archive.name.endswith(".tar.gz"):
        raise WrongArgumentError(f"{archive}: its name must end in .tar.gz, by which Spark unpacks it")
    try:
        count = write(archive)
    except OSError as fault:
        raise WrongArgumentError(f"{archive} cannot be written: {fault.strerror}") from None
    print(f"{archive}: {count} files, {archive.stat().st_size / 1e6:.1f} MB")
    for name, value in settings(archive.resolve()).items():
        print(f"--conf {name}={value}")
