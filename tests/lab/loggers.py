"""The environment with the newest wandb and tensorboard, which tests/lab/install.sh makes."""

from pathlib import Path

from tests.lab.needed import need

FOLDER = Path("/opt/trackside-lab")
PYTHON = FOLDER / "bin" / "python"


def need_loggers() -> None:
    """Skip or fail the test where the environment is lacking."""
    need("wandb and tensorboard", [] if (FOLDER / ".complete").exists() else [str(FOLDER)])
