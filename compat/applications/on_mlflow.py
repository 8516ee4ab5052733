"""MLflow's tracking server, used by its own client: an experiment, a run, artifacts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(tempfile.mkdtemp())
os.environ["_MLFLOW_SERVER_FILE_STORE"] = f"sqlite:///{FOLDER}/runs.db"
os.environ["_MLFLOW_SERVER_ARTIFACT_ROOT"] = "mlflow-artifacts:/"
os.environ["_MLFLOW_SERVER_ARTIFACT_DESTINATION"] = str(FOLDER / "artifacts")
os.environ["_MLFLOW_SERVER_SERVE_ARTIFACTS"] = "true"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

from mlflow.server.fastapi_app import app  # noqa: E402, F401


def observe(url: str) -> dict[str, Any]:
    """Record a run, then read it again."""
    import httpx
    from mlflow import MlflowClient
    from mlflow.artifacts import download_artifacts

    seen: dict[str, Any] = {}
    client = MlflowClient(url)
    experiment = client.create_experiment("an experiment")
    run = client.create_run(experiment).info.run_id
    client.log_param(run, "rate", 0.1)
    for step in range(20):
        client.log_metric(run, "loss", 1 / (step + 1), timestamp=step, step=step)
    big = FOLDER / "big.bin"
    big.write_bytes(bytes(range(256)) * 12_000)
    client.log_artifact(run, str(big))
    client.set_terminated(run)
    found = client.get_run(run)
    seen["run"] = (found.data.params, found.data.metrics, found.info.status)
    seen["history"] = [each.value for each in client.get_metric_history(run, "loss")]
    seen["artifacts"] = [(each.path, each.file_size) for each in client.list_artifacts(run)]
    copy = download_artifacts(f"{found.info.artifact_uri}/big.bin", tracking_uri=url)
    seen["downloaded"] = Path(copy).read_bytes() == big.read_bytes()
    page = httpx.get(url + "/", timeout=20)
    seen["page"] = (page.status_code, page.headers["content-type"])
    seen["health"] = httpx.get(url + "/health", timeout=20).text
    return seen
