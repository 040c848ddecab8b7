"""The performance report: all measurements one after the other, a page for users, the full report, plots, JSON.

    python -m bench.report                          an hour at most; make performance does the same
    python -m bench.report --quick                  twelve minutes at most, into build/
    python -m bench.report --only failover,peers    some parts
    python -m bench.report --reuse build/performance-run                composes again, measures nothing
    python -m bench.report --reuse docs/performance/report.json         the same, from the published figures
    python -m bench.report --reuse build/performance-run --only spark   measures one part anew

- `__main__`    the command line
- `parts`       the parts: their programs, arguments and time limits
- `running`     a part as a child process: progress, time limit, end
- `part_results`   the results of a part, as one file of a folder
- `profiling`   a part of its own: where a broker's time goes; with `sampled`, a broker that samples itself,
                and `kernel`, the time below Python
- `headline`    the headline figures: floor, goal, result; and all requirements
- `behind`      figures in which another system is better, with the plans of plans.yaml
- `costs`       the cost of a request and of a byte, from CPU time by size
- `plots`       the plots
- `sections`, `prose`, `tuning`   the pages in pieces
- `users_page`  the page for users, docs/performance.md
- `page`        the pieces as the full report, docs/performance/report.md, and the JSON

Rule 1: every number on the page comes from a part's results; the prose has none.
Rule 2: the page names everything that was not measured, or not completely, with the reason.
Rule 3: a part that fails or takes too long does not affect the others.
"""
