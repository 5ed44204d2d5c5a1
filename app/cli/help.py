"""What `trackside --help` and `trackside VERB --help` say beyond the options. Nothing is imported here."""

from __future__ import annotations

DESCRIPTION = """\
Does GPU time become training progress? Trackside accounts for every GPU-second of a cluster exactly once, and derives
goodput, ETTR, MTTF and time to restart from that one account, each with its definition and evidence."""

EPILOG = """\
See it all on a simulated cluster:  trackside demo

A first look at your own cluster, on a machine where sacct works:
  trackside ingest slurm          read Slurm (the last 30 days; later only what is new)
  trackside compute               build the ledger and the numbers
  trackside show goodput          ... ettr mttf restarts lost interruptions runs nodes
  trackside ingest prometheus     add telemetry of GPUs and nodes: show utilisation, filesystems, network, health
  trackside ingest runlog         add what training loops logged: show mfu
  trackside explore               look at it in a browser
  trackside verify                judge a vendor's headline claims against your data

Without Slurm at hand, load files: trackside ingest slurm sacct.txt events.txt nodes.txt
Every verb explains itself: trackside VERB --help"""

SHOW_EPILOG = """\
what to show, and what it can be split --by:
  goodput        productive share: of wall time (job, as Google's library), of allocated GPU-time and of all there was;
                 scheduling x runtime x program
                 --by day, node, user, account, partition, run; bucket: where logged runs' wall time went
  ettr           productive share of queued and scheduled time, over runs, measured and expected; --run R: the
                 arithmetic of one
                 --by run; with --run R: stretch (second by second), class
  mttf           mean time to failure by job size, with exact intervals; --at GPUS: scaled to that size
                 --by size, law, hazard, reference, cause, partition, user
  mfu            model FLOP utilisation over kept steps, by FLOP convention; --run R: of one run; --convention NAME
                 --by run, step, gpu_model; proxy: logs against tensor activity; estimate: runs without logs
  restarts       from an interruption to the next start, by cause; --run R: of one run
                 --by stage (detection to recovery), event
  lost           where all GPU-time went, by category and cause
                 --by cause, category, day, node, user, account, partition, run
  interruptions  every attempt that ended otherwise than by completing, why, and what it cost; --run R: of one run
                 --by cause, class, node, order (preempted for a run that came back from a failure)
  runs           training runs: attempts, how they were joined, bounds of their ETTR; --run R: one
  nodes          nodes, those whose failures cost most first, and what to do
  lemons         nodes that fail more often than chance gives (the last 28 days), and what could have been detected
  checkpoints    how often runs save, how often would lose least, and the GPU-hours to be won; --run R: of one run
  waste          allocated GPU-time that shows no work: standing still, GPUs never used, loops of failures, time limits
                 --by kind, state, user, account, partition, run
  utilisation    what allocated GPUs did: utilisation, tensor activity, idle GPU-hours, power, energy (needs telemetry)
                 --by user, account, partition, run, attempt
  filesystems    operations, bytes and response time by mount, as nodes tell of them (needs telemetry of nodes)
                 --by user, account, partition, run, attempt, node
  network        what InfiniBand ports carried (needs telemetry of nodes)
                 --by user, account, partition, run, attempt, node
  health         incidents of nodes (XID, ECC, links, mounts, conditions), the attempts they touch, and what to do
                 --by node, attempt, kind

times are UTC: 2026-10-01, 2026-10-01T12:00, or backwards from the end of the data: 7d, 24h"""

DUMP_COMMANDS = """\
export TZ=UTC SLURM_TIME_FORMAT=%s
sacct -a -D -X -P --noconvert -S 2026-10-01 -o ALL > sacct.txt
sacctmgr -P show event Start=2026-10-01 \\
    Format=Cluster,NodeName,TimeStart,TimeEnd,State,StateRaw,Reason,User > events.txt
sacctmgr -P show reservation Start=2026-10-01 End=now \\
    Format=Cluster,ID,Name,Start,End,NodeNames,Flags,TRES,UnusedWall,Associations > reservations.txt
sacctmgr -P show transactions Start=2026-10-01 \\
    Format=Time,Action,Actor,Where,Cluster,ID,Info > transactions.txt
sacctmgr -P show assoc > assoc.txt
sacctmgr -P show qos > qos.txt
scontrol show node > nodes.txt
scontrol show topology > topology.txt
scontrol show config > config.txt
sdiag > sdiag.txt
"""
"""What makes a complete picture, for a shell on a machine where Slurm works."""

INGEST_EPILOG = f"""\
Files are told apart by content: accounting, node events, nodes, reservations, topology, settings, accounts, QOS,
account changes, runaway jobs, sdiag; sacct --json and slurmrestd's answers, too. A complete picture, made where Slurm
works (only the first is a must):

  {DUMP_COMMANDS.replace(chr(10), chr(10) + "  ").rstrip()}

then: trackside ingest slurm *.txt

What holds at a moment only is of the time that --until says; else of the time in it (nodes, sdiag); else, where it
tells none (reservations, topology, accounts, QOS, runaway jobs), of the time up to which the files loaded with it
reach. Alone and without --until it is refused: it is never taken for what holds now."""

STATUS_EPILOG = """\
rows now: what is in the warehouse, however often it was loaded. The last load is all that was read in one ingest: its
rows were new, known already (the same again, or news of them), skipped by design (job steps), or rejected.

--format json prints one object; times are UTC, what nobody knows is null:
  warehouse, data_version, seen_at
  sources   cluster, source, rows (by table, now), loads, covers_from, covers_until, age_s, and last_load: loaded_at,
            inputs, read, new, known, skipped, rejected, warnings
  warnings  cluster, source, kind, says           what looks wrong beside earlier loads
  gaps      cluster, source, started_at, ended_at, gap_s    time that no load speaks for
  removals  cluster, table_name, before, rows, removed_at   what trackside retention took out
  ledgers   cluster, since, until, computed_at, loads_since
  rejects   cluster, source, reason, n, first_seen          refused rows
  checks    name, severity, says, n               data checks that found something"""

PROMETHEUS_EPILOG = """\
Without files the server is asked (--url, or [prometheus] url in the configuration), from where the last ingest ended;
secrets come from environment variables, never from the command line. Files: OpenMetrics or Prometheus text with
timestamps, Parquet with the columns of a table of ours (gpu_samples, gpu_hours, node_samples, node_hours,
cluster_samples, health_events), or Parquet with a reading a row. Reading twice equals reading once.

  trackside ingest prometheus --url http://prometheus:9090 --cluster my-cluster
  trackside ingest prometheus --since 2026-10-01 --until 2026-11-01     fills in a month
  trackside ingest prometheus bundle.om.gz hours.parquet                from a cluster without a network"""

RETENTION_EPILOG = """\
How long telemetry is kept stands in the configuration; without it, for ever:
  [retention]
  samples_days = 90      samples of GPUs and nodes older than so many days go, by whole UTC days
  hours_days = 1095      hourly roll-ups go; no shorter than samples_days

No sample goes before its hour has a roll-up (mean, maximum, 95th percentile, seconds above a threshold, seconds
covered). The next compute goes by what is left: by hours, which do not tell whose an hour was that changed hands, and
without those by accounting alone. Attempts, steps, health events and what schedulers count stay. Each removal is noted
in the table removals, and shown by trackside status. trackside serve does this once a day.
First look: trackside retention --dry-run

With --future what goes are rows of times later than now, from a clock that was wrong; they move to the table rejects.
Loading refuses them; earlier versions did not, and trackside doctor lists what they stored."""

RUNLOG_EPILOG = """\
Run logs are JSON lines, written by the recorder (trackside recorder > trackside_log.py); gzip is accepted. A log that
still grows may be read again at any time: what is new is added. --cluster is for logs that name none themselves."""

RECORDER_EPILOG = """\
trackside recorder > trackside_log.py     one file, standard library only: copy it beside your training script
  import trackside_log
  log = trackside_log.start("run.jsonl", run_id="llama-8b", n_gpus=16, params_active=8.03e9, layers=32, heads=32,
                            head_dim=128, seq_len=8192, dtype="bf16", gpu_model="H100", recompute="none")
  for step in range(first, last):
      with log.step(step, tokens=batch_tokens): train()
      if step % 500 == 0:
          with log.checkpoint(step): save()
It never stops training: what goes wrong with the log is said once on stderr. Only rank 0 writes (RANK, SLURM_PROCID).
More of the model allows more FLOP conventions: hidden, ffn_hidden, kv_heads, vocab, gated, tied (Megatron's,
torchtitan's), attention_layers (hybrid), experts, top_k, shared_experts, expert_params (mixture of experts: active
parameters follow from params), recompute (none, selective or full: HFU beside MFU).
The file itself tells the rest: checkpoint_async for saves in the background, event("checkpoint_load"), event("eval").
then: trackside ingest runlog run.jsonl"""

VERIFY_EPILOG = """\
A claims file is TOML with one [[claim]] each: id, metric, quoted (the words used), read_as (what is tested), kind
(delivered: judged by bounds; capability: judged by its 95 % interval), target, direction (at_least or at_most), and
where they apply gpus, min_run_hours, flop_convention, failure_class (infrastructure or unplanned) and population
(pooled or bucket). Copy app/claims/vendor_headlines.toml, the default, and change it. A claim may have, too:
  window = "2026-10"                          its own period (a month, a day, FROM..UNTIL), or "28d" before the end
  scope = { partition = "train", gpus_min = 512 }     or account, user, nodes, gpu_model, gpus_max
  exclusions = [ { from = "2026-10-05T08:00", until = "2026-10-05T12:00", nodes = "gpu[01-08]", reason = "agreed" },
                 { category = "maintenance", reason = "agreed" } ]     in neither part of the fraction; told each time
What a metric cannot honour is refused. Undetermined says what would decide; one-sided results are shown beside it.

exit status: 3 if any claim is refuted, else 4 if any is undetermined, else 0 (errors use neither)"""

ADJUDICATE_EPILOG = """\
A correction holds from the next computation on, survives late data and reading the sources again, and is shown beside
every number that it bears on. It is never erased: withdrawing one says who took it back, when and why. Where two speak
of the same thing, the later one counts. What changed is printed: verdicts, GPU-hours by category, interruptions.

  trackside adjudicate cause --job 4711 --class infrastructure --cause nvlink --node n03 \\
      --author "A. Person" --reason "RMA 1234: NVLink bridge replaced"
  trackside adjudicate node-state --node n03 --from 2026-10-05T08:00 --until 2026-10-05T12:00 --state maintenance \\
      --author "A. Person" --reason "firmware, agreed on 2 October"
  trackside adjudicate run-join --run llama-8b --job 4712 --author "A. Person" --reason "resumed from its checkpoint"
  trackside adjudicate list --all
  trackside adjudicate withdraw adj-0123456789 --author "A. Person" --reason "wrong node\""""

MANUAL = {
    "demo": "tutorial",
    "ingest": "tutorial",
    "ingest slurm": "sources/slurm",
    "ingest prometheus": "sources/prometheus",
    "ingest runlog": "sources/run-logs",
    "recorder": "sources/run-logs",
    "compute": "concepts/ledger",
    "status": "sources/slurm#is-the-data-complete",
    "show": "how-to/questions",
    "verify": "how-to/claims",
    "adjudicate": "how-to/corrections",
    "report": "how-to/reports",
    "explore": "how-to/questions#in-a-browser",
    "serve": "how-to/serve-behind-a-proxy",
    "retention": "how-to/retention",
    "dashboards": "how-to/grafana",
    "sql": "how-to/questions#your-own-sql",
    "export": "reference/dictionary",
}
"""The page of the manual that a verb's help ends with. A verb that is not here has its section of `reference/cli`."""


def manual_topic(command: str) -> str:
    """The page, or section of a page, about a command without `trackside`, such as `ingest slurm`."""
    words = command.split()
    known = (MANUAL.get(" ".join(words[:count])) for count in range(len(words), 0, -1))
    return next(filter(None, known), f"reference/cli#trackside-{'-'.join(words)}")
