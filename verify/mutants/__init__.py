"""Mutation testing of the correctness core: break one line at a time and demand that a test fails.

`python -m verify.mutants` (or `make mutants`) mutates the modules of `core.yaml`, runs the tests that execute the
changed line, and lists the mutants that no test killed. `accepted.yaml` holds the survivors that are known, each with a
reason. A survivor that is not in it makes the command exit with 1.

In reading order: `mutations` finds the mutants of a source, `core` reads both lists, `run` chooses tests and counts
verdicts, `workshop` is a copy of the tree and the processes in it, `line_recorder` and `fork_server` are the pytest
plugins of those processes, `results` keeps verdicts, `report` prints them.

Why not a library: mutmut and cosmic-ray key survivors by line or position, and start a test command for each mutant.
Here a mutant costs a tenth of a second, because a fork of a process that has collected the tests judges it; and a
survivor stays known when lines move, because it is keyed by module, function and source text. Both libraries would also
mutate the installed tree, where a compiled module shadows the mutated source.
"""
