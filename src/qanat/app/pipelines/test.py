"""`qanat pipeline test`: run a pipeline on given rows and compare the result."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.terminal.listing import counted


def compare(
    file: str,
    /,
    *,
    case: Annotated[list[str] | None, Parameter(name=["--case", "-k"], negative="")] = None,
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="")] = False,
) -> int:
    """Run a pipeline on given rows, and compare its tables and sinks with expected ones. No broker is needed.

        qanat pipeline test mine.yaml
        qanat pipeline test mine.test.yaml --case "big orders pass"

    The cases of mine.yaml are in mine.test.yaml (or .yml, .json) beside it. The exit code is 1 where rows differ.

    Parameters
    ----------
    file:
        The YAML file of a pipeline, or the file of its cases.
    case:
        Only the case of this name, as often as needed.
    verbose:
        Show Spark's log.
    """
    from qanat.app.pipelines.case_runner import run_cases
    from qanat.spark.pipelines.bundled.catalogue import named
    from qanat.spark.pipelines.cases.case_file import chosen, find_case_file, read_cases

    found = read_cases(find_case_file(file))
    cases = chosen(found, case or [])
    failures = 0
    for one, problems in run_cases(named(found.pipeline), cases, is_verbose=verbose):
        print(f"{'FAILED' if problems else 'ok    '}  {one.name}")
        for problem in problems:
            print("\n".join(f"        {line}" for line in problem.splitlines()))
        failures += bool(problems)
    print(f"{counted(len(cases), 'case')}, {failures} failed" if failures else f"{counted(len(cases), 'case')} passed")
    return 1 if failures else 0
