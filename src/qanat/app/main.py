"""The command line: `qanat`.

Rule 1: commands are named here and imported only when they are called, so that
        `qanat --version` and completion stay quick. A command is one line in
        `build_app`: where it lives, its name, its one-line meaning.
Rule 2: what a user did wrong ends as one sentence on stderr and exit code 1, or 2 where the line itself is wrong;
        a traceback means a bug.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted, 141 nobody reads any more, 143 terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from qanat import __version__
from qanat.app.terminal.standard_streams import EXIT_PIPE_CLOSED, after_world_fault, complain, flush, prepare
from qanat.model.errors import QanatError

if TYPE_CHECKING:
    from cyclopts import App, CycloptsError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_AGAIN_S = 0.01
"""After which an interrupt comes again that could not be raised where it came."""
_ENDED_BY_SIGNAL = {128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
_CLUSTER_FLAGS = ("-X", "-b", "--bootstrap", "--bootstrap-server", "--profile", "--timeout", "-F", "--command-config")
_SERVERS = ("start", "dev")
"""Commands that see to signals themselves, and that do without a place to print."""

DESCRIPTION = """\
A distributed message queue that speaks Kafka's wire protocol.

Every command explains itself with --help. Listings take -o json for programs.
Trouble with this machine? `qanat doctor` says what is missing and what to do.
"""


def build_app() -> App:
    """The tree of commands; nothing in it is imported before it is called."""
    from cyclopts import App, Parameter

    app = App(
        name="qanat",
        # That a switch is off unless it is given goes without saying.
        default_parameter=Parameter(show_default=lambda value: None if value in (False, None, "") else str(value)),
        help=DESCRIPTION,
        help_format="markdown",
        version=f"qanat {__version__}",
        suppress_keyboard_interrupt=False,
    )
    app.command(
        "qanat.app.node.start:start", name="start", help="Run a broker on this machine until it is told to stop."
    )
    app.command("qanat.app.node.start:dev", name="dev", help="Run a throw-away broker in memory.")
    app.command(
        "qanat.app.records.produce_command:produce", name="produce", help="Write lines of standard input to a topic."
    )
    app.command("qanat.app.records.consume_command:consume", name="consume", help="Print records of a topic.")
    app.command(_topic_commands(App(name="topic", help="Create, look at, change and delete topics.")))
    app.command(_group_commands(App(name="group", help="Consumer and share groups: members, lag, offsets.")))
    app.command(_cluster_commands(App(name="cluster", help="Several brokers as one: start, look at, move things.")))
    transaction = App(
        name=["transaction", "txn"], help="Transactions: who has one open, and how to end one that hangs."
    )
    at = "qanat.app.transactions.transaction_commands"
    transaction.command(f"{at}:list_transactions", name="list", help="List transactional ids.")
    transaction.command(f"{at}:describe", name="describe", help="Show transactions, or the producers of a partition.")
    transaction.command(f"{at}:abort", name="abort", help="Abort an open transaction and fence its producer.")
    app.command(transaction)
    pipeline = App(name="pipeline", help="Pipelines on Spark: topics read, computed and written, exactly once.")
    at = "qanat.app.pipelines.command"
    pipeline.command(f"{at}:list_pipelines", name="list", help="List the pipelines that come with Qanat.")
    pipeline.command(f"{at}:show", name="show", help="Print a pipeline and its settings.")
    packing = "qanat.app.pipelines.packing:pack"
    pipeline.command(packing, name="pack", help="Pack Qanat for the executors of a cluster.")
    pipeline.command(f"{at}:run", name="run", help="Run a pipeline until it is told to stop.")
    app.command(pipeline)
    config = App(name="config", help="Settings of topics, brokers and groups.")
    config.command("qanat.app.config_commands:get", name="get", help="Show settings in force.")
    config.command("qanat.app.config_commands:set_settings", name="set", help="Change settings.")
    app.command(config)
    profile = App(name="profile", help="Names for clusters, so that nobody types addresses.")
    for name, function, meaning in (
        ("list", "list_profiles", "List the profiles of this user."),
        ("set", "set_profile", "Add a profile, or change it."),
        ("use", "use", "Use a profile wherever none is named."),
        ("delete", "delete", "Forget a profile; the cluster is not touched."),
        ("settings", "list_settings", "List the client settings that -X and profiles take."),
    ):
        profile.command(f"qanat.app.profile_commands:{function}", name=name, help=meaning)
    app.command(profile)
    app.command(
        "qanat.app.doctor:doctor",
        name="doctor",
        help="Check this machine: Python, native parts, limits, disk; say what to do about each.",
    )
    log = App(name="log", help="Look into data directories as they lie on disk; nothing is changed.")
    log.command("qanat.app.log_commands:verify", name="verify", help="Read every byte and compare checksums.")
    log.command("qanat.app.log_commands:dump", name="dump", help="Show a segment's batches or records.")
    app.command(log)
    app.command(
        _bench_commands(App(name="bench", help="Measure any cluster from outside, or the log on this machine."))
    )
    app.command("qanat.app.completion:completion", name="completion", help="Print a script for your shell.")
    return app


def _cluster_commands(cluster: App) -> App:
    at = "qanat.app.cluster"
    cluster.command(f"{at}.up:up", name="up", help="Run a cluster on this machine until it is told to stop.")
    cluster.command(f"{at}.up:down", name="down", help="Stop a cluster on this machine.")
    cluster.command(f"{at}.up:restart", name="restart", help="Restart the brokers of a local cluster, one by one.")
    cluster.command(f"{at}.status:status", name="status", help="Show brokers, leaders and missing replicas.")
    cluster.command(f"{at}.moves:reassign", name="reassign", help="Move partitions to other brokers.")
    cluster.command(f"{at}.moves:drain", name="drain", help="Move everything away from a broker.")
    cluster.command(f"{at}.moves:rebalance", name="rebalance", help="Spread partitions evenly over all brokers.")
    cluster.command(f"{at}.upgrade:upgrade", name="upgrade", help="Raise the format level, when all brokers are new.")
    cluster.command(f"{at}.throttling:throttle", name="throttle", help="Show or change how fast moves may go.")
    cluster.command(f"{at}.moves:elect", name="elect", help="Let preferred replicas lead, or any where nobody can.")
    return cluster


def _topic_commands(topic: App) -> App:
    at, changes = "qanat.app.topics.topic_commands", "qanat.app.topics.topic_changes"
    topic.command(f"{at}:create", name="create", help="Create topics.")
    topic.command(f"{at}:list_topics", name="list", help="List topics.")
    topic.command(f"{at}:describe", name="describe", help="Show the partitions of topics.")
    topic.command(f"{at}:delete", name="delete", help="Delete topics with everything in them.")
    topic.command(
        "qanat.app.topics.topic_clone:clone", name="clone", help="Create a topic like another, with its records."
    )
    topic.command(f"{changes}:alter", name="alter", help="Change settings of a topic.")
    topic.command(f"{changes}:add_partitions", name="add-partitions", help="Give a topic more partitions.")
    topic.command(f"{changes}:trim", name="trim", help="Remove the oldest records of a topic.")
    return topic


def _group_commands(group: App) -> App:
    at = "qanat.app.groups.group_commands"
    group.command(f"{at}:list_groups", name="list", help="List groups.")
    group.command(f"{at}:describe", name="describe", help="Show what groups have read, and their lag.")
    group.command(f"{at}:delete", name="delete", help="Delete groups with their offsets.")
    group.command("qanat.app.groups.group_reset:reset", name=["reset", "seek"], help="Let a group read again, or skip.")
    return group


def _bench_commands(bench: App) -> App:
    at = "qanat.app.bench.broker"
    bench.command(f"{at}.produce:produce", name="produce", help="How fast records are taken.")
    bench.command(f"{at}.consume:consume", name="consume", help="How fast records are given out.")
    meaning = "How long a record takes from producer to consumer, at a fixed rate."
    bench.command(f"{at}.end_to_end:end_to_end", name="end-to-end", help=meaning)
    meaning = "How long a group needs until everybody reads again after members come and go."
    bench.command(f"{at}.rebalance:rebalance", name="rebalance", help=meaning)
    bench.command(f"{at}.partitions:partitions", name="partitions", help="What more and more partitions cost.")
    bench.command(f"{at}.connections:connections", name="connections", help="What many connections cost.")
    meaning = "The log on this machine, each figure beside its physical limit."
    bench.command("qanat.app.bench.command:bench_log", name="log", help=meaning)
    return bench


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    if list(arguments) == ["--version"]:
        # Scripts ask this often; the parser would take its time and load rich to print a line.
        return _dispatch(arguments, _print_version)
    is_server = bool(arguments) and arguments[0] in _SERVERS
    if sys.stdout is None and not is_server:
        complain("standard output is closed: there is no place to print")
        return EXIT_FAILED
    if is_server:
        return _dispatch(arguments, _parsed)
    with _orderly_end() as ended_by:
        try:
            code = _dispatch(arguments, _parsed)
        except KeyboardInterrupt:  # It came while something else was being put in order.
            code = EXIT_INTERRUPTED
        return 128 + ended_by[0] if code == EXIT_INTERRUPTED and ended_by else code


def _dispatch(arguments: Sequence[str], act: Callable[[Sequence[str]], int]) -> int:
    try:
        result = act(arguments)
        flush()
    except QanatError as fault:
        complain(str(fault))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except SystemExit as ending:
        # rich's own way to end when nobody reads what it prints.
        return EXIT_PIPE_CLOSED if isinstance(ending.__context__, BrokenPipeError) else int(ending.code or 0)
    except OSError as fault:
        return after_world_fault(fault)
    except UnicodeEncodeError as fault:
        complain(f"{fault.object[:100]!r} is no UTF-8")
        return EXIT_FAILED
    return result


@contextmanager
def _orderly_end() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: groups are left, temporary folders removed.

    One that comes while Python lets something go (a weak reference, `__del__`) is told to `sys.unraisablehook` alone,
    and would be lost: it comes once more.
    """
    ended_by: list[int] = []
    tell_unraisable = sys.unraisablehook

    def interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            tell_unraisable(unraisable)
            return
        number = ended_by[-1] if ended_by else signal.SIGINT
        again = threading.Timer(_AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, number))
        again.daemon = True
        again.start()

    def interrupt(number: int, frame: object) -> None:
        ended_by.append(number)
        if not callable(signal.getsignal(signal.SIGINT)):  # As for a job in the background of a script.
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    if (
        threading.current_thread() is not threading.main_thread()
    ):  # Threads cannot set handlers, nor are they interrupted.
        yield ended_by
        return
    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # Who ignores a signal (nohup) has a reason.
            before[number] = signal.signal(number, interrupt)
    sys.unraisablehook = interrupt_again
    try:
        yield ended_by
    finally:
        sys.unraisablehook = tell_unraisable
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_version(_: Sequence[str]) -> int:
    print(f"qanat {__version__}")
    return 0


def _quickly(arguments: Sequence[str]) -> int | None:
    """A broker that is started plainly does not wait for the parser; anything else does."""
    if not arguments or arguments[0] != "start":
        return None
    from qanat.app.node.quick_start import quick_start

    return quick_start(arguments[1:])


def _parsed(arguments: Sequence[str]) -> int:
    result = _quickly(arguments)
    return _thoroughly(arguments) if result is None else result


def _thoroughly(arguments: Sequence[str]) -> int:
    from cyclopts import CycloptsError

    app = build_app()
    arguments = _cluster_last(arguments)
    if ("-X", "list") in pairwise(arguments):
        # As in kcat and rpk, behind whatever command.
        arguments = ("profile", "settings")
    if "--help" in arguments or "-h" in arguments:
        _explain(app, arguments)
    try:
        result = app(
            list(arguments),
            exit_on_error=False,
            print_error=False,
            result_action="return_int_as_exit_code_else_zero",
        )
    except CycloptsError as fault:
        complain(_usage(fault))
        return EXIT_USAGE
    return int(result)


def _usage(fault: CycloptsError) -> str:
    """What is wrong with a line, and where it is explained."""
    from cyclopts import UnusedCliTokensError

    told = " ".join(str(fault).split()).rstrip(".")
    if isinstance(fault, UnusedCliTokensError) and fault.unused_tokens:
        told = f"{fault.unused_tokens[0]!r} is one argument too many"
    return f"{told}; see {' '.join(('qanat', *(fault.command_chain or ()), '--help'))}"


def _cluster_last(arguments: Sequence[str]) -> Sequence[str]:
    """Which cluster is meant may be said before the command, too: `qanat -b host:9092 topic list`."""
    rest, moved = list(arguments), []
    while rest and rest[0].partition("=")[0] in _CLUSTER_FLAGS:
        count = 1 if "=" in rest[0] else 2
        moved += rest[:count]
        rest = rest[count:]
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *moved, *rest[end:]]


def _explain(app: App, arguments: Sequence[str]) -> None:
    """Let the one command that is asked about speak for itself, examples included: now it may be imported."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    asked = app.parse_commands(names)[1][-1]
    if asked.default_command is not None and asked is not app:
        asked.help = _with_fences(asked.default_command.__doc__ or "")
        if names[:2] == ["pipeline", "run"] and names[2:]:
            from qanat.app.pipelines.options import explained

            asked.help += explained(names[2])


def _with_fences(docstring: str) -> str:
    """The text before the parameters, its examples in fences: the parser takes an indented first block for prose."""
    import inspect

    text = inspect.cleandoc(docstring).partition("\nParameters\n---")[0].rstrip()
    lines: list[str] = []
    for line in text.split("\n"):
        is_example = line.startswith("    ")
        is_inside = bool(lines) and lines[-1].startswith("    ")
        if is_example != is_inside:
            lines.append("```")
        lines.append(line)
    if lines[-1].startswith("    "):
        lines.append("```")
    return "\n".join(line.removeprefix("    ") for line in lines)


def main() -> None:
    """The console script's entry."""
    prepare()
    code = run(sys.argv[1:])
    if code in _ENDED_BY_SIGNAL:
        # CPython kills itself with SIGINT at its end where an interrupt once struck inside an exec(), be it handled or
        # not (dataclasses and named tuples are made by one): the exit code would be lost.
        with suppress(OSError, ValueError):
            flush()
        os._exit(code)
    sys.exit(code)
