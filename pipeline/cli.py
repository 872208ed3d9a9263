"""The command `cir`: one subcommand a stage. Imports are lazy, so that `cir --help` answers at once."""

import errno
import importlib
import os
import select
import sys
from typing import Any, NoReturn

import click

from pipeline import __version__
from pipeline.errors import CirError

# stage, command, where it lives, one line. The line stands here so that help needs no import of the stages.
COMMANDS: list[tuple[str, str, str, str]] = [
    ("games", "games", "pipeline.games.command:games", "Index ALFWorld's games, generate new ones, translate them."),
    (
        "trajectories",
        "cohorts",
        "pipeline.trajectories.command:cohorts",
        "Draw disjoint cohorts; settle which tasks are feasible.",
    ),
    (
        "trajectories",
        "factual",
        "pipeline.trajectories.command:factual",
        "Run the agent unaltered on a cohort's tasks.",
    ),
    (
        "trajectories",
        "trunk",
        "pipeline.trajectories.command:trunk",
        "Alter one observation and run on, without recovery.",
    ),
    ("forks", "fork", "pipeline.forks.command:fork", "Fork every trunk at k + d and apply one operator."),
    ("outcomes", "pairs", "pipeline.outcomes.command:pairs", "Pair each branch with its trunk; list what fell out."),
    (
        "outcomes",
        "effects",
        "pipeline.outcomes.command:effects",
        "Rescues, harms, effects and intervals of a pairs table.",
    ),
    (
        "outcomes",
        "contrast",
        "pipeline.outcomes.command:contrast",
        "Difference between two conditions or operators, paired.",
    ),
    (
        "outcomes",
        "compare",
        "pipeline.outcomes.comparison_command:compare",
        "A study's figures beside published ones, row by row.",
    ),
    ("outcomes", "power", "pipeline.outcomes.planning_command:power", "Tasks that a study needs, by exact tests."),
    ("outcomes", "gate", "pipeline.outcomes.planning_command:gate", "The failure rate from which a recovery gains."),
    (
        "router",
        "features",
        "pipeline.router.command:features",
        "Features of every candidate moment, from the prefix only.",
    ),
    ("router", "fit", "pipeline.router.command:fit", "Fit the router on out-of-fold predictions."),
    ("router", "decide", "pipeline.router.command:decide", "Ask a fitted router about one prefix."),
    ("evaluation", "evaluate", "pipeline.evaluation.command:evaluate", "Compare policies on held-out tasks."),
    ("evaluation", "live", "pipeline.evaluation.live_command:live", "Play held-out episodes with the router deciding."),
    ("evaluation", "value", "pipeline.evaluation.value_command:value", "A policy's value from a log without pairs."),
    ("report", "report", "pipeline.report.command:report", "Write the study's page and figures."),
    ("store", "store", "pipeline.store.command:store", "Look into the episode store; collect what no study needs."),
    (
        "audit",
        "audit",
        "pipeline.audit.command:audit",
        "Check a finished study: hashes, origins, planned units, code.",
    ),
    (
        "audit",
        "trace",
        "pipeline.audit.trace_command:trace",
        "What an artifact was made from; the episodes behind a number.",
    ),
    (
        "audit",
        "export-crate",
        "pipeline.audit.crate_command:export_crate",
        "The study as a Workflow Run RO-Crate.",
    ),
    ("terminal", "status", "pipeline.terminal.command:status", "How far a study is: jobs, episodes, exclusions, ETA."),
    ("terminal", "show", "pipeline.terminal.command:show", "Print an episode, or a trunk beside its branch."),
    ("terminal", "doctor", "pipeline.terminal.command:doctor", "Check this machine, and say what to do."),
    ("config", "config", "pipeline.config.command:config", "Check a study's config; regenerate its schema and docs."),
]


class Stages(click.Group):
    """A group whose subcommands are imported when they are called, and listed by stage."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Names in the order of the stages."""
        return [name for _, name, _, _ in COMMANDS]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of that name, imported now, or None."""
        for _, command, where, _ in COMMANDS:
            if command == name:
                module, attribute = where.split(":")
                return getattr(importlib.import_module(module), attribute)
        return None

    def invoke(self, context: click.Context) -> Any:
        """Run the command; with --record its record is written once it has succeeded."""
        if (target := context.params.get("record")) is None:
            return super().invoke(context)
        from pipeline.provenance.recording import recording

        with recording(target, _called(self, context)):
            return super().invoke(context)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """One section a stage, from the table above."""
        for stage in dict.fromkeys(stage for stage, *_ in COMMANDS):
            with formatter.section(stage.capitalize()):
                formatter.write_dl([(name, line) for s, name, _, line in COMMANDS if s == stage])


def _called(group: click.Group, context: click.Context) -> click.Context:
    """Context of the command that the arguments name, through groups of commands; nothing of it runs."""
    name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
    inner = command.make_context(name, list(rest), parent=context)
    return _called(command, inner) if isinstance(command, click.Group) else inner


@click.group(cls=Stages, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cir")
@click.option("--record", type=click.Path(), metavar="FILE", help="Write the command's provenance record to FILE.")
def cir(record: str | None) -> None:
    """Measure how often a recovery rescues or harms an agent's run, by paired forks, and learn when to intervene.

    Data goes to stdout, talk to stderr. Exit codes: 0 done; 1 a check failed; 2 the call, config or an input is wrong.

    \b
    Example: the effects of a finished study
      cir effects results/demo/outcomes/pairs.parquet
    """


def main() -> None:
    """Entry point: a user's mistake ends with one message and its exit code, never with a traceback."""
    _open_streams()
    try:
        code = cir.main(standalone_mode=False) or 0
        # Now, while it can still be said: at the interpreter's end a full disk would be a traceback.
        sys.stdout.flush()
        sys.exit(code)
    except CirError as error:
        click.echo(f"cir: {error}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("cir: interrupted; what was finished is kept", err=True)
        sys.exit(130)
    except BrokenPipeError:
        _reader_left()
    except SystemExit as stop:
        # click and rich turn a broken pipe into exit 1, which here would mean that a check failed.
        if isinstance(stop.__context__, BrokenPipeError) or (stop.code == 1 and _reader_is_gone()):
            _reader_left()
        raise
    except MemoryError as error:
        click.echo(
            f"cir: not enough memory ({error}); ask for less (resamples, threads) or use a larger machine", err=True
        )
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        where = error.filename or "standard output"
        click.echo(
            f"cir: {where}: cannot be written ({error.strerror}); free space and run the command again", err=True
        )
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)


def _reader_is_gone() -> bool:
    # click leaves no trace of the exception (rich does), but the pipe itself says it: POLLERR once no reader is there.
    poll = select.poll()
    poll.register(1, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _reader_left() -> NoReturn:
    """The reader of our stdout (head, less) has left: end as a program that SIGPIPE ended, and say nothing."""
    # The interpreter must not complain when it flushes.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(141)


def _open_streams() -> None:
    """Give the null device to standard streams that the caller closed; else the next file opened would take their place."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    # Data is UTF-8 whatever the locale, so that the same study prints the same bytes.
    sys.stdout.reconfigure(encoding="utf-8")


if __name__ == "__main__":
    main()
