"""The texts that scontrol prints: `Key=value` records of nodes and reservations, and `Name = value` lines of settings.

Values hold blanks (`OS=Linux 6.1 #1 SMP`, `Reason=Prolog error [root@...]`), so a record is cut where one of the known
keys begins, not at blanks.
"""

from __future__ import annotations

import itertools
import re
from typing import Final

from ingest.delimited.header import words

NODE_KEYS: Final = words(
    "NodeName Arch CoresPerSocket CPUAlloc CPUEfctv CPUErr CPUTot CPULoad CPUSpecList AvailableFeatures ActiveFeatures "
    "Gres GresDrain GresUsed NodeAddr NodeHostName Port Version OS RealMemory AllocMem FreeMem Sockets Boards State "
    "CoreSpecCount MemSpecLimit ThreadsPerCore TmpDisk Weight Owner MCS_label Partitions BootTime SlurmdStartTime "
    "LastBusyTime ResumeAfterTime CfgTRES AllocTRES CapWatts CurrentWatts AveWatts ExtSensorsJoules ExtSensorsWatts "
    "ExtSensorsTemp Reason Comment Extra InstanceId InstanceType ReservationName BcastAddr Topology NextState "
    "CertFlags ParameterTags GPUSpec LowestJoules ConsumedJoules TLSCertLastRenewal"
)

RESERVATION_KEYS: Final = words(
    "ReservationName StartTime EndTime Duration Nodes NodeCnt CoreCnt Features PartitionName Flags TRES TRESPerNode "
    "Users Groups Accounts QOS AllowedPartitions Licenses State BurstBuffer Watts MaxStartDelay MaxDelay PurgeComp "
    "Comment NodeName CoreIDs"
)


def _keys(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(r"(?:^|(?<=\s))(" + "|".join(names) + ")=")


_NODE_KEY = _keys(NODE_KEYS)
_RESERVATION_KEY = _keys(RESERVATION_KEYS)
_RECORD = re.compile(r"(?m)^[ \t]*(?=NodeName=)")
_RESERVATION = re.compile(r"(?m)^[ \t]*(?=ReservationName=)")
_SETTING = re.compile(r"\s*([A-Za-z]\w*)\s*=\s?(.*?)\s*")
_LAST: Final = frozenset({"Reason", "Comment", "Extra"})


def node_records(text: str) -> list[tuple[int, str]]:
    r"""The records of `scontrol show node`, one-line or not, each with the number of its first line.

    >>> node_records("NodeName=a X=1\n   State=IDLE\n\nNodeName=b")
    [(1, 'NodeName=a X=1\n   State=IDLE'), (4, 'NodeName=b')]
    """
    return _records(text, _RECORD)


def reservation_records(text: str) -> list[tuple[int, str]]:
    r"""The records of `scontrol show reservation`, one-line or not, each with the number of its first line.

    >>> reservation_records("ReservationName=a\n   Nodes=n1\n\nReservationName=b")
    [(1, 'ReservationName=a\n   Nodes=n1'), (4, 'ReservationName=b')]
    """
    return _records(text, _RESERVATION)


def _records(text: str, beginning: re.Pattern[str]) -> list[tuple[int, str]]:
    starts = [fields.end() for fields in beginning.finditer(text)]
    return [
        (text.count("\n", 0, start) + 1, text[start:stop].strip())
        for start, stop in itertools.pairwise([*starts, len(text)])
    ]


def node_values(record: str) -> dict[str, str]:
    """The values of a record by key. What looks like a key inside a Reason stays text.

    >>> node_values("NodeName=n1 State=DOWN OS=Linux 6.1 #1 Reason=bad State=x [root@7]")["Reason"]
    'bad State=x [root@7]'
    """
    return _values(record, _NODE_KEY)


def reservation_values(record: str) -> dict[str, str]:
    """The values of a record of a reservation by key.

    >>> reservation_values("ReservationName=m Nodes=n[1-2] NodeCnt=2 Flags=MAINT,SPEC_NODES")["Nodes"]
    'n[1-2]'
    """
    return _values(record, _RESERVATION_KEY)


def _values(record: str, keys: re.Pattern[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    match = keys.search(record)
    while match is not None:
        key = match[1]
        after = keys.search(record, match.end())
        while after is not None and (key in _LAST and after[1] in fields):
            after = keys.search(record, after.end())
        fields.setdefault(key, record[match.end() : after.start() if after else len(record)].strip())
        match = after
    return fields


def settings(text: str) -> dict[str, str]:
    r"""The `Name = value` lines of `scontrol show config`; other lines are none.

    >>> settings("Configuration data as of ...\nSlurmdTimeout  = 300 sec\nPowerPlugin = \n")
    {'SlurmdTimeout': '300 sec', 'PowerPlugin': ''}
    """
    lines = (_SETTING.fullmatch(line) for line in text.splitlines())
    return {fields[1]: fields[2] for fields in lines if fields}
