"""One command, the whole report: every measurement one after the other, one page, its plots, one JSON.

    python -m bench.report                          an hour at most; make performance does the same
    python -m bench.report --quick                  five minutes at most, into build/
    python -m bench.report --only failover,peers    some parts
    python -m bench.report --reuse build/performance-run                composes again, measures nothing
    python -m bench.report --reuse build/performance-run --only spark   measures one part anew

- `__main__`    the command line
- `parts`       what is run, with which words, and how long each may take
- `running`     a part as a child process: its progress, its budget, its end
- `kept`        what a part has found, in a folder, and read again
- `profiling`   a part of its own: where a broker's time goes; with `sampled`, a broker that looks at itself,
                and `kernel`, what is below
- `headline`    what the project is judged by: floor, goal, what was measured
- `behind`      where Qanat is behind anybody, with the plans of plans.yaml
- `costs`       what a request and a byte cost, from CPU time by size
- `plots`       pictures
- `sections`, `prose`, `tuning`   the page in pieces
- `page`        the pieces as one page, and the JSON

Rule 1: every number on the page comes out of a kept file; prose has none.
Rule 2: what was not measured, or not to its end, is named with the reason.
Rule 3: a part that fails or takes too long takes nothing else with it.
"""
