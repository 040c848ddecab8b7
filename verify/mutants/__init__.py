"""Mutation testing of the correctness core: break one line at a time and demand that a test fails.

`python -m verify.mutants` (or `make mutants`) mutates the modules of `core.yaml`, runs the fast tests that are mapped
to each of them, and lists the mutants that no test killed. `accepted.yaml` holds the survivors that are known, each
with a reason. A survivor that is not in it makes the command exit with 1.

`mutations` finds the mutants of a source, `workshop` runs tests on a mutated copy of the tree, `core` reads both
lists, `report` prints the result.

Why not a library: mutmut and cosmic-ray run one test command for every module, and key survivors by line or position.
Here a mutant costs half a second because only the tests of its module run, in pytest without other plugins; and a
survivor stays known when lines move, because it is keyed by module, function and source text. Both libraries would also
mutate the installed tree, where a compiled module shadows the mutated source.
"""
