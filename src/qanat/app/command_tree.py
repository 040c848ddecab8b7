"""The tree of `qanat`'s commands: name, module and one-line meaning of each.

Rule 1: a command is one line here. Its module is named for it: `qanat topic trim` is `qanat.app.topics.trim`.
Rule 2: a command's module is imported only when the command runs or explains itself, so that `qanat --version` and
        completion stay quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat import __version__

if TYPE_CHECKING:
    from cyclopts import App

DESCRIPTION = """\
A distributed message queue that speaks Kafka's wire protocol.

Every command explains itself with --help. Listings take -o json for programs.
Trouble with this machine? `qanat doctor` says what is missing and what to do.
"""


def build_app() -> App:
    """The tree of commands; it imports no command."""
    from cyclopts import App, Parameter

    app = App(
        name="qanat",
        # A switch is off unless it is given: its default need not be shown.
        default_parameter=Parameter(show_default=lambda value: None if value in (False, None, "") else str(value)),
        help=DESCRIPTION,
        help_format="markdown",
        version=f"qanat {__version__}",
        suppress_keyboard_interrupt=False,
    )
    at = "qanat.app"
    app.command(f"{at}.start.start:start", name="start", help="Run a broker on this machine until it is stopped.")
    app.command(f"{at}.start.dev:dev", name="dev", help="Run a throw-away broker in memory.")
    app.command(f"{at}.records.produce:produce", name="produce", help="Write lines of standard input to a topic.")
    app.command(f"{at}.records.consume:consume", name="consume", help="Print records of a topic.")
    app.command(_topic_commands(App(name="topic", help="Create, look at, change and delete topics.")))
    app.command(_group_commands(App(name="group", help="Consumer and share groups: members, lag, offsets.")))
    app.command(_cluster_commands(App(name="cluster", help="Several brokers as one: start, look at, move partitions.")))
    meaning = "Transactions: which are open, and how to end one that hangs."
    app.command(_transaction_commands(App(name=["transaction", "txn"], help=meaning)))
    meaning = "Pipelines on Spark: topics read, computed and written, exactly once."
    app.command(_pipeline_commands(App(name="pipeline", help=meaning)))
    app.command(_config_commands(App(name="config", help="Settings of topics, brokers and groups.")))
    app.command(_profile_commands(App(name="profile", help="Names for clusters, instead of addresses.")))
    meaning = "Check this machine: Python, native parts, limits, disk; say what to do about each."
    app.command(f"{at}.doctor.doctor:doctor", name="doctor", help=meaning)
    app.command(_log_commands(App(name="log", help="Read data directories on disk; nothing is changed.")))
    meaning = "Measure any cluster from outside, or the log on this machine."
    app.command(_bench_commands(App(name="bench", help=meaning)))
    app.command(f"{at}.completion:completion", name="completion", help="Print a script for your shell.")
    return app


def _topic_commands(topic: App) -> App:
    at = "qanat.app.topics"
    topic.command(f"{at}.create:create", name="create", help="Create topics.")
    topic.command(f"{at}.list:list_topics", name="list", help="List topics.")
    topic.command(f"{at}.describe:describe", name="describe", help="Show the partitions of topics.")
    topic.command(f"{at}.delete:delete", name="delete", help="Delete topics with everything in them.")
    topic.command(f"{at}.clone:clone", name="clone", help="Create a topic like another, with its records.")
    topic.command(f"{at}.alter:alter", name="alter", help="Change settings of a topic.")
    topic.command(f"{at}.add_partitions:add_partitions", name="add-partitions", help="Give a topic more partitions.")
    topic.command(f"{at}.trim:trim", name="trim", help="Remove the oldest records of a topic.")
    return topic


def _group_commands(group: App) -> App:
    at = "qanat.app.groups"
    group.command(f"{at}.list:list_groups", name="list", help="List groups.")
    group.command(f"{at}.describe:describe", name="describe", help="Show what groups have read, and their lag.")
    group.command(f"{at}.delete:delete", name="delete", help="Delete groups with their offsets.")
    group.command(f"{at}.reset:reset", name=["reset", "seek"], help="Let a group read again, or skip.")
    return group


def _cluster_commands(cluster: App) -> App:
    at = "qanat.app.cluster"
    cluster.command(f"{at}.up:up", name="up", help="Run a cluster on this machine until it is stopped.")
    cluster.command(f"{at}.down:down", name="down", help="Stop a cluster on this machine.")
    cluster.command(f"{at}.restart:restart", name="restart", help="Restart the brokers of a local cluster, one by one.")
    cluster.command(f"{at}.status:status", name="status", help="Show brokers, leaders and missing replicas.")
    cluster.command(f"{at}.reassign:reassign", name="reassign", help="Move partitions to other brokers.")
    cluster.command(f"{at}.drain:drain", name="drain", help="Move everything away from a broker.")
    cluster.command(f"{at}.rebalance:rebalance", name="rebalance", help="Spread partitions evenly over all brokers.")
    cluster.command(f"{at}.upgrade:upgrade", name="upgrade", help="Raise the format level, when all brokers are new.")
    cluster.command(f"{at}.throttle:throttle", name="throttle", help="Show or change how fast moves may go.")
    meaning = "Elect preferred leaders, or any replica where none can lead."
    cluster.command(f"{at}.elect:elect", name="elect", help=meaning)
    return cluster


def _transaction_commands(transaction: App) -> App:
    at = "qanat.app.transactions"
    transaction.command(f"{at}.list:list_transactions", name="list", help="List transactional ids.")
    meaning = "Show transactions, or the producers of a partition."
    transaction.command(f"{at}.describe:describe", name="describe", help=meaning)
    transaction.command(f"{at}.abort:abort", name="abort", help="Abort an open transaction and fence its producer.")
    return transaction


def _pipeline_commands(pipeline: App) -> App:
    at = "qanat.app.pipelines"
    pipeline.command(f"{at}.list:list_pipelines", name="list", help="List the pipelines that come with Qanat.")
    pipeline.command(f"{at}.show:show", name="show", help="Print a pipeline and its settings.")
    pipeline.command(f"{at}.pack:pack", name="pack", help="Pack Qanat for the executors of a cluster.")
    pipeline.command(f"{at}.run:run", name="run", help="Run a pipeline until it is stopped.")
    return pipeline


def _config_commands(config: App) -> App:
    at = "qanat.app.configs"
    config.command(f"{at}.get:get", name="get", help="Show settings in force.")
    config.command(f"{at}.set:set_settings", name="set", help="Change settings.")
    return config


def _profile_commands(profile: App) -> App:
    at = "qanat.app.profiles"
    profile.command(f"{at}.list:list_profiles", name="list", help="List the profiles of this user.")
    profile.command(f"{at}.set:set_profile", name="set", help="Add a profile, or change it.")
    profile.command(f"{at}.use:use", name="use", help="Use a profile wherever none is named.")
    profile.command(f"{at}.delete:delete", name="delete", help="Delete a profile; the cluster is not touched.")
    meaning = "List the client settings that -X and profiles take."
    profile.command(f"{at}.settings:list_settings", name="settings", help=meaning)
    return profile


def _log_commands(log: App) -> App:
    at = "qanat.app.logs"
    log.command(f"{at}.verify:verify", name="verify", help="Read every byte and compare checksums.")
    log.command(f"{at}.dump:dump", name="dump", help="Show a segment's batches or records.")
    return log


def _bench_commands(bench: App) -> App:
    at = "qanat.app.bench"
    bench.command(f"{at}.produce:produce", name="produce", help="How fast a cluster takes records.")
    bench.command(f"{at}.consume:consume", name="consume", help="How fast a cluster gives records out.")
    meaning = "How long a record takes from producer to consumer, at a fixed rate."
    bench.command(f"{at}.end_to_end:end_to_end", name="end-to-end", help=meaning)
    meaning = "How long a group needs to settle after members come and go."
    bench.command(f"{at}.rebalance:rebalance", name="rebalance", help=meaning)
    bench.command(f"{at}.partitions:partitions", name="partitions", help="What more and more partitions cost.")
    bench.command(f"{at}.connections:connections", name="connections", help="What many connections cost.")
    meaning = "The log on this machine, each figure beside its physical limit."
    bench.command(f"{at}.log:bench_log", name="log", help=meaning)
    return bench
