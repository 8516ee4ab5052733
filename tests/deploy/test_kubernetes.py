"""The manifests and the chart for Kubernetes, against the schemas of its API and our metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from bolide.server.management.pages import STATES, all_families
from deploy.files import CHART, DEPLOY, MANIFESTS, manifests, pod

VERSIONS = ("1.30", "1.37")
"""The oldest that the chart names, and the newest whose schemas are installed."""
KINDS = {
    "Deployment",
    "Service",
    "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
    "NetworkPolicy",
}
ADAPTER = yaml.safe_load((DEPLOY / "kubernetes" / "prometheus-adapter.yaml").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
HELM = shutil.which("helm")
needs_helm = pytest.mark.skipif(HELM is None, reason="needs helm")


def rendered(*arguments: str, release: str = "shop", code: int = 0) -> str:
    """Return what Helm makes of the chart, or why it refuses."""
    done = subprocess.run(
        [str(HELM), "template", release, str(CHART), "--kube-version", VERSIONS[0], *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def validate(objects: dict[str, Any]) -> None:
    """Compare objects with the schemas, which know every field."""
    for each in objects.values():
        for version in VERSIONS:
            kubernetes_validate.validate(each, version, strict=True)


def test_the_manifests_have_the_form_of_the_api() -> None:
    objects = manifests()
    assert objects.keys() == KINDS
    validate(objects)
    mistaken = json.loads(json.dumps(objects["Deployment"]))
    mistaken["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        validate({"Deployment": mistaken})
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == ">=1.30.0-0"


def test_objects_select_the_pods() -> None:
    objects = manifests()
    deployment = objects["Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    (spread,) = pod(objects)["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    target = objects["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    named = (deployment["apiVersion"], "Deployment", deployment["metadata"]["name"])
    assert (target["apiVersion"], target["kind"], target["name"]) == named
    assert "replicas" not in deployment["spec"]  # it would undo what the autoscaler does


def test_pods_have_few_rights_and_the_management_listener_is_not_for_clients() -> None:
    objects = manifests()
    (container,) = pod(objects)["containers"]
    assert pod(objects)["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"].keys() == {"memory"}
    assert [each["targetPort"] for each in objects["Service"]["spec"]["ports"]] == ["http"]
    for_all = [rule for rule in objects["NetworkPolicy"]["spec"]["ingress"] if "from" not in rule]
    assert for_all == [{"ports": [{"port": "http"}]}]


def test_the_autoscaler_uses_a_metric_that_is_exported() -> None:
    (used,) = manifests()["HorizontalPodAutoscaler"]["spec"]["metrics"]
    (rule,) = ADAPTER["rules"]["custom"]
    assert used["pods"]["metric"]["name"] == rule["name"]["as"] == VALUES["autoscaling"]["metric"]
    families = {family.name: family for family in all_families()}
    assert families["bolide_event_loop_pause_seconds"].kind == "histogram"
    exported = {"bolide_event_loop_pause_seconds_sum"} | {
        name for name, family in families.items() if family.kind == "gauge"
    }
    queries = rule["seriesQuery"] + rule["metricsQuery"]
    assert set(re.findall(r"\bbolide_\w+", queries)) <= exported
    states = re.findall(r'state="(\w+)"', queries)
    assert states and {*states} <= {*STATES}
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "kubernetes.yml").read_text())
    labels = {each.get("target_label") for each in scraped["scrape_configs"][0]["relabel_configs"]}
    assert {"namespace", "pod"} <= labels


def test_values_are_those_that_the_chart_accepts() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(VALUES, schema)
    assert VALUES.keys() == schema["properties"].keys() - {"global"}
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert set(re.findall(r"\.Values\.(\w+)", templates)) == VALUES.keys()


@needs_helm
@pytest.mark.tools
def test_the_manifests_are_what_the_chart_makes() -> None:
    assert rendered() == MANIFESTS.read_text()


@needs_helm
@pytest.mark.tools
@pytest.mark.parametrize(
    ("option", "value", "written"),
    [
        ("body_bytes_max", 16777216, "16777216"),
        ("access_log_sample", 0.01, "0.01"),
        ("preload", True, "true"),
        ("trusted_proxies", "10.0.0.0/8,unix", "10.0.0.0/8,unix"),
    ],
)
def test_the_chart_writes_values_as_options_have_them(
    option: str, value: object, written: str
) -> None:
    objects = manifests(rendered("--set-json", f"options={json.dumps({option: value})}"))
    (container,) = pod(objects)["containers"]
    assert {"name": f"BOLIDE_{option.upper()}", "value": written} in container["env"]


@needs_helm
@pytest.mark.tools
def test_the_chart_has_other_shapes() -> None:
    off = ("--set", "autoscaling.enabled=false,networkPolicy.enabled=false,replicas=3")
    more = (
        "--set-json",
        'env=[{"name": "A", "value": "1"}]',
        "--set-json",
        'pullSecrets=[{"name": "s"}]',
    )
    secret = ("--set-json", 'envFrom=[{"secretRef": {"name": "s"}}]')
    times = ("--set", "shutdown.gracefulSeconds=60,shutdown.endpointRemovalSeconds=10")
    objects = manifests(rendered(*off, *more, *secret, *times, "--set", "startupSeconds=1"))
    validate(objects)
    assert objects.keys() == KINDS - {"HorizontalPodAutoscaler", "NetworkPolicy"}
    assert objects["Deployment"]["spec"]["replicas"] == 3
    (container,) = pod(objects)["containers"]
    assert pod(objects)["terminationGracePeriodSeconds"] == 75
    assert container["startupProbe"]["failureThreshold"] == 1
    assert container["lifecycle"]["preStop"]["sleep"]["seconds"] == 10
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert (variables["BOLIDE_GRACEFUL_TIMEOUT_MS"], variables["A"]) == ("60000", "1")
    assert container["envFrom"] == [{"secretRef": {"name": "s"}}]
    dotted = manifests(rendered(release="shop.example"))
    assert {each["metadata"]["name"] for each in dotted.values()} == {"shop-example"}


@needs_helm
@pytest.mark.tools
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("options.management=0.0.0.0:1", "management"),
        ("options.Workers=2", "Workers"),
        ("shutdown.gracefulSeconds=0", "gracefulSeconds"),
        ("replica=2", "replica"),
        ("image.tag=", "tag"),
    ],
)
def test_the_chart_refuses_mistakes(given: str, named: str) -> None:
    assert named in rendered("--set", given, code=1)
