"""The tree of `qanat`'s commands: name, module and one-line meaning of each.

Rule 1: a command is one line here. Its module is named for it: `qanat topic trim` is `qanat.app.topics.trim`.
Rule 2: a command's module is imported only when the command runs or explains itself, so that `qanat --version` and
        completion stay quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qanat import __version__

if TYPE_CHECKING:
    from cyclopts import App

DESCRIPTION = """\
A distributed message queue that speaks Kafka's wire protocol.

Every command explains itself with --help. Listings take -o json for programs.
Trouble with this machine? `qanat doctor` says what is missing and what to do.
"""


Names = str | tuple[str, ...]
"""A name, with the other names after it."""


class Command(NamedTuple):
    """A command: its module and function in the folder of its group, and its meaning."""

    name: Names
    place: str
    meaning: str


class CommandGroup(NamedTuple):
    """Commands on one subject, in one folder."""

    name: Names
    folder: str
    meaning: str
    commands: tuple[Command, ...]


COMMANDS: tuple[Command | CommandGroup, ...] = (
    Command("start", "start.start:start", "Run a broker on this machine until it is stopped."),
    Command("dev", "start.dev:dev", "Run a throw-away broker in memory."),
    Command("console", "start.console:console", "Serve the web console of a cluster to the browser of this machine."),
    Command("run", "apps.run:run", "Run the handlers of an app until it is stopped."),
    Command("produce", "records.produce:produce", "Write lines of standard input to a topic."),
    Command("consume", "records.consume:consume", "Print records of a topic."),
    CommandGroup(
        "push",
        "push",
        "Records as soon as they can be read, over the push protocol.",
        (
            Command("subscribe", "subscribe:subscribe", "Print records as they are pushed."),
            Command("produce", "produce:produce", "Write lines of standard input."),
            Command("list", "list:list_consumers", "List connected push consumers."),
            Command("refresh", "refresh:refresh", "Give a group a topic again."),
        ),
    ),
    CommandGroup(
        "edge",
        "edge",
        "The tree of brokers, and applications that keep what a broker pushes.",
        (
            Command("consumer", "consumer:consumer", "Keep what a broker pushes, and answer queries from it."),
            Command("tree", "tree:tree", "Show the tree that a registry holds."),
            Command("list", "list:list_nodes", "List the nodes of a tree."),
            Command("register", "register:register", "Add a node to the tree."),
            Command("move", "move:move", "Give a node another role, other parents or topics."),
            Command("retire", "retire:retire", "Remove a node from the tree."),
            Command("test-registry", "feed_registry:feed_registry", "Feed a broker five prices, as a cloud would."),
            Command("acceptance", "acceptance:acceptance", "Run the whole flow, from a registry to an application."),
        ),
    ),
    CommandGroup(
        "topic",
        "topics",
        "Create, look at, change and delete topics.",
        (
            Command("create", "create:create", "Create topics."),
            Command("list", "list:list_topics", "List topics."),
            Command("describe", "describe:describe", "Show the partitions of topics."),
            Command("delete", "delete:delete", "Delete topics with everything in them."),
            Command("clone", "clone:clone", "Create a topic like another, with its records."),
            Command("alter", "alter:alter", "Change settings of a topic."),
            Command("add-partitions", "add_partitions:add_partitions", "Give a topic more partitions."),
            Command("trim", "trim:trim", "Remove the oldest records of a topic."),
        ),
    ),
    CommandGroup(
        "group",
        "groups",
        "Consumer and share groups: members, lag, offsets.",
        (
            Command("list", "list:list_groups", "List groups."),
            Command("describe", "describe:describe", "Show what groups have read, and their lag."),
            Command("lag", "lag:lag", "Show the lag of all groups, the worst first."),
            Command("delete", "delete:delete", "Delete groups with their offsets."),
            Command(("reset", "seek"), "reset:reset", "Let a group read again, or skip."),
        ),
    ),
    CommandGroup(
        "cluster",
        "cluster",
        "Several brokers as one: start, look at, move partitions.",
        (
            Command("up", "up:up", "Run a cluster on this machine until it is stopped."),
            Command("down", "down:down", "Stop a cluster on this machine."),
            Command("restart", "restart:restart", "Restart the brokers of a local cluster, one by one."),
            Command("status", "status:status", "Show brokers, leaders and missing replicas."),
            Command("reassign", "reassign:reassign", "Move partitions to other brokers."),
            Command("drain", "drain:drain", "Move everything away from a broker."),
            Command("rebalance", "rebalance:rebalance", "Spread partitions evenly over all brokers."),
            Command("upgrade", "upgrade:upgrade", "Raise the format level, when all brokers are new."),
            Command("throttle", "throttle:throttle", "Show or change how fast moves may go."),
            Command("elect", "elect:elect", "Elect preferred leaders, or any replica where none can lead."),
        ),
    ),
    CommandGroup(
        ("transaction", "txn"),
        "transactions",
        "Transactions: which are open, and how to end one that hangs.",
        (
            Command("list", "list:list_transactions", "List transactional ids."),
            Command("describe", "describe:describe", "Show transactions, or the producers of a partition."),
            Command("abort", "abort:abort", "Abort an open transaction and fence its producer."),
        ),
    ),
    CommandGroup(
        "dlq",
        "dead_letters",
        "Dead letters: where they come from, why, and back again.",
        (
            Command("list", "list:list_letters", "List the dead letters of a topic."),
            Command("show", "show:show", "Show one dead letter, whole."),
            Command("redrive", "redrive:redrive", "Write dead letters back to where they come from."),
        ),
    ),
    CommandGroup(
        "pipeline",
        "pipelines",
        "Pipelines on Spark: topics read, computed and written, exactly once.",
        (
            Command("list", "list:list_pipelines", "List bundled and installed pipelines."),
            Command("show", "show:show", "Print a pipeline and its settings."),
            Command("check", "check:check", "Check a pipeline without running it."),
            Command("test", "test:compare", "Run a pipeline on given rows, and compare."),
            Command("pack", "pack:pack", "Pack Qanat for the executors of a cluster."),
            Command("run", "run:run", "Run a pipeline until it is stopped."),
            Command("submit", "submit:submit", "Run a pipeline detached from the terminal."),
            Command("status", "status:status", "Show runs: state, speed, lag, last error."),
            Command("stop", "stop:stop", "End a run after its micro-batch."),
            Command("restart", "restart:restart", "Stop a run, and submit it again."),
            Command("history", "history:history", "Show past runs of a pipeline."),
        ),
    ),
    CommandGroup(
        "config",
        "configs",
        "Settings of topics, brokers and groups.",
        (
            Command("get", "get:get", "Show settings in force."),
            Command("set", "set:set_settings", "Change settings."),
            Command("check", "check:check", "Check a broker's settings without starting it."),
            Command("explain", "explain:explain", "Explain a setting of a broker, and where its value comes from."),
        ),
    ),
    CommandGroup(
        "user",
        "users",
        "Users that log in with SCRAM: add, list, remove, set passwords.",
        (
            Command("add", "add:add", "Add a user."),
            Command("list", "list:list_users", "List users."),
            Command("password", "password:password", "Set another password."),
            Command("remove", "remove:remove", "Remove users."),
        ),
    ),
    CommandGroup(
        "secure",
        "secure",
        "TLS, users and ACLs for a broker, in one command.",
        (Command("init", "init:init", "Prepare a broker with TLS, SCRAM and ACLs."),),
    ),
    CommandGroup(
        "api-key",
        "api_keys",
        "API keys of HTTP clients: add, list, remove.",
        (
            Command("add", "add:add", "Make a key for a user, and print it once."),
            Command("list", "list:list_keys", "List keys by their prefixes."),
            Command("remove", "remove:remove", "Remove keys."),
        ),
    ),
    CommandGroup(
        "acl",
        "acls",
        "Rules of the built-in authorizer: who may do what to which resource.",
        (
            Command("add", "add:add", "Allow operations on resources, or deny them."),
            Command("list", "list:list_acls", "List rules."),
            Command("remove", "remove:remove", "Remove rules."),
            Command("suggest", "suggest:suggest", "Print the rules that are missing for what clients did."),
            Command("why", "why:why", "Say whether a principal may do something, and by which rule."),
        ),
    ),
    CommandGroup(
        "profile",
        "profiles",
        "Names for clusters, instead of addresses.",
        (
            Command("list", "list:list_profiles", "List the profiles of this user."),
            Command("set", "set:set_profile", "Add a profile, or change it."),
            Command("use", "use:use", "Use a profile wherever none is named."),
            Command("delete", "delete:delete", "Delete a profile; the cluster is not touched."),
            Command("settings", "settings:list_settings", "List the client settings that -X and profiles take."),
        ),
    ),
    Command("version", "doctor.version:version", "Show what is installed here, and what of it is compiled."),
    Command(
        "doctor",
        "doctor.doctor:doctor",
        "Check this machine and the broker's security; say what to do about each finding.",
    ),
    Command("bundle", "diagnosis.bundle:bundle", "Pack what a cluster shows of itself, without secrets."),
    Command("top", "diagnosis.top:top", "Show live what brokers, topics and groups do."),
    Command("diagnose", "diagnosis.diagnose:diagnose", "Say why a cluster is slow: what limits it, and what to do."),
    CommandGroup(
        "metrics",
        "metrics",
        "Alerts for Prometheus and dashboards for Grafana, as files.",
        (
            Command("rules", "rules:rules", "Print or write alerting and recording rules."),
            Command("dashboards", "dashboards:dashboards", "Write five dashboards."),
        ),
    ),
    CommandGroup(
        "log",
        "logs",
        "Read data directories on disk; nothing is changed.",
        (
            Command("verify", "verify:verify", "Read every byte and compare checksums."),
            Command("dump", "dump:dump", "Show a segment's batches or records."),
        ),
    ),
    CommandGroup(
        "bench",
        "bench",
        "Measure any cluster from outside, or the log on this machine.",
        (
            Command("produce", "produce:produce", "How fast a cluster takes records."),
            Command("consume", "consume:consume", "How fast a cluster gives records out."),
            Command(
                "end-to-end",
                "end_to_end:end_to_end",
                "How long a record takes from producer to consumer, at a fixed rate.",
            ),
            Command("rebalance", "rebalance:rebalance", "How long a group needs to settle after members come and go."),
            Command("partitions", "partitions:partitions", "What more and more partitions cost."),
            Command("connections", "connections:connections", "What many connections cost."),
            Command("log", "log:bench_log", "The log on this machine, each figure beside its physical limit."),
        ),
    ),
    Command("completion", "completion:completion", "Print a script for your shell."),
)


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
    for one in COMMANDS:
        if isinstance(one, Command):
            app.command(f"qanat.app.{one.place}", name=one.name, help=one.meaning)
            continue
        group = App(name=one.name, help=one.meaning)
        for command in one.commands:
            group.command(f"qanat.app.{one.folder}.{command.place}", name=command.name, help=command.meaning)
        app.command(group)
    return app
