"""Golden transcripts: a command, a dashed line, exactly what came of it.

Members go by the names of the script (`a`, `b`); ids and tickets do not show.
Outcomes are derived from the commands alone: `performed` gives the text anew
where a change was meant.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.groups.shell import SECOND, Call, Shell

from qanat.groups.records import GroupMetadataRecord, GroupTombstone, OffsetCommitRecord, OffsetTombstone
from qanat.groups.replies import CommitReply, HeartbeatReply, JoinReply, LeaveReply, Reply, SyncReply
from qanat.groups.requests import CommitOffsets, Heartbeat, LeaveGroup, LeavingMember, OffsetToCommit, SyncGroup
from qanat.groups.settings import GroupSettings
from qanat.model.error_codes import ErrorCode

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


class Theatre:
    """Plays a script's commands on a shell and prints the visible outcome."""

    def __init__(self) -> None:
        self.shell = Shell(GroupSettings())
        self.names: dict[str, str] = {}
        """The script's names by member id."""
        self.joined: dict[str, JoinReply] = {}
        self.waiting: list[tuple[str, Call]] = []
        self.written = 0

    def play(self, command: str) -> list[str]:
        verb, *words = command.split()
        name, options = (words[0] if words else ""), words[1:]
        if verb == "wait":
            self.shell.advance(int(name.removesuffix("s")) * SECOND)
        elif verb == "crash":
            self.shell.crash()
            self.waiting = []
        else:
            self.waiting.append((name, getattr(self, verb)(name, options)))
        return [*self.new_records(), *self.new_replies(), f"group: {self.state()}"]

    def join(self, name: str, options: list[str]) -> Call:
        """`static`: with an instance id; `restarted`: without its member id."""
        known = self.joined.get(name)
        member_id = known.member_id if known and "restarted" not in options else ""
        return self.shell.join(member_id, client_id=name, instance_id=f"i-{name}" if "static" in options else None)

    def sync(self, name: str, options: list[str]) -> Call:
        joined = self.joined[name]
        assignments = tuple((one.member_id, f"for {self.name(one.member_id)}".encode()) for one in joined.members)
        return self.shell.send(SyncGroup("g", joined.member_id, joined.generation_id, assignments=assignments))

    def beat(self, name: str, options: list[str]) -> Call:
        return self.shell.send(Heartbeat("g", self.joined[name].member_id, self.joined[name].generation_id))

    def leave(self, name: str, options: list[str]) -> Call:
        return self.shell.send(LeaveGroup("g", (LeavingMember(self.joined[name].member_id),)))

    def commit(self, name: str, options: list[str]) -> Call:
        offsets = (OffsetToCommit("orders", 0, int(options[0])),)
        joined = self.joined[name]
        return self.shell.send(CommitOffsets("g", offsets, joined.member_id, joined.generation_id))

    def new_records(self) -> list[str]:
        records = self.shell.records[self.written :]
        self.written += len(records)
        return [f"write: {self.told_record(record)}" for record in records]

    def new_replies(self) -> list[str]:
        answered = [(name, call.replies[0]) for name, call in self.waiting if call.is_answered]
        for name, reply in answered:
            if isinstance(reply, JoinReply) and reply.error is ErrorCode.NONE:
                self.joined[name] = reply
                self.names[reply.member_id] = name
        self.waiting = [(name, call) for name, call in self.waiting if not call.is_answered]
        waits = [f"{name} waits" for name, _ in self.waiting]
        return [f"{name} <- {self.told_reply(reply)}" for name, reply in answered] + waits

    def name(self, member_id: str) -> str:
        """The name in the script; ids start with it."""
        return self.names.get(member_id, member_id.removeprefix("i-").split("-")[0])

    def told_record(self, record: object) -> str:
        match record:
            case GroupMetadataRecord():
                members = [f"{self.name(one.member_id)}: {one.assignment.decode()!r}" for one in record.members]
                return f"group at generation {record.generation_id} {{{', '.join(members)}}}"
            case OffsetCommitRecord():
                return f"offset {record.offset} of {record.topic}-{record.partition}"
            case GroupTombstone() | OffsetTombstone():
                return f"end of {record}"
        raise AssertionError(record)

    def told_reply(self, reply: Reply) -> str:
        match reply:
            case JoinReply(ErrorCode.NONE):
                members = [self.name(member.member_id) for member in reply.members]
                among = f", leads {', '.join(members)}" if members else f", led by {self.name(reply.leader_id)}"
                return f"generation {reply.generation_id}{among}{' (skips)' if reply.skip_assignment else ''}"
            case SyncReply(ErrorCode.NONE):
                return repr(reply.assignment.decode())
            case LeaveReply():
                return reply.members[0].error.name
            case CommitReply():
                return reply.partitions[0].error.name
            case JoinReply() | SyncReply() | HeartbeatReply():
                return reply.error.name
        raise AssertionError(reply)

    def state(self) -> str:
        group = self.shell.shard.groups.get("g")
        if group is None:
            return "none"
        members = ", ".join(self.name(member_id) for member_id in group.members)
        return f"{group.state} {group.generation_id} [{members}]"


def performed(script: str) -> str:
    """The script with its outcomes as they are now."""
    theatre = Theatre()
    commands = [block.split("\n----\n")[0].strip() for block in script.strip().split("\n\n")]
    told = []
    for command in commands:
        last = command.splitlines()[-1]
        told.append("\n".join([command, "----", *theatre.play(last)]))
    return "\n\n".join(told) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_what_came_of_it_is_what_is_written_down(path: Path) -> None:
    assert performed(path.read_text()) == path.read_text()


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 4
