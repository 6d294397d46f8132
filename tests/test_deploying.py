"""The image and the manifests in ``deploy``: what they name is there, and what a container runs, runs here.

No container runtime is needed, so no image is built: the entrypoint runs as a user who can read everything and write
to two folders only, with the variables of the image.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyspark
import pytest
import yaml

from penstock import produce
from penstock.cli.main import main
from penstock.engine.slots.slot import EXECUTOR_STATE_DIR
from penstock.settings import Settings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"


def documents(*files: str) -> list[Any]:
    return [one for file in files for one in yaml.safe_load_all((KUBERNETES / file).read_text())]


def dockerfile(instruction: str) -> list[str]:
    """What stands behind an instruction, each time."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split(" ", 1)[1] for line in text.splitlines() if line.startswith(f"{instruction} ")]


def variables_of_the_image() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in dockerfile("ENV") for pair in shlex.split(line))


# --- what is named is there -------------------------------------------------------------------------------------------


def test_the_resources_are_those_that_the_kustomization_names():
    resources = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    assert [(one["kind"], one["metadata"]["name"]) for one in documents(*resources)] == [
        ("Namespace", "penstock"),
        ("ServiceAccount", "driver"),
        ("Role", "driver"),
        ("RoleBinding", "driver"),
        ("Service", "driver"),
        ("Service", "page"),
        ("StatefulSet", "driver"),
    ]
    others = {"kustomization.yaml", "executor.yaml", "app.py", "spark.conf", "settings.env"}
    assert {file.name for file in KUBERNETES.iterdir()} - set(resources) == others


def pods() -> Iterator[tuple[str, Any]]:
    [driver] = documents("driver.yaml")
    yield "driver", driver["spec"]["template"]["spec"]
    [executor] = documents("executor.yaml")
    yield "executor", executor["spec"]


@pytest.mark.parametrize(("name", "pod"), list(pods()), ids=["driver", "executor"])
def test_a_pod_is_no_root_and_writes_to_volumes_alone(name: str, pod: Any):
    user = int(dockerfile("USER")[0].partition(":")[0])
    assert pod["securityContext"] == {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, "fsGroup": user}
    [container] = pod["containers"]
    assert container["name"] == name
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {"/data", "/tmp"}


def test_services_lead_to_the_driver_and_its_page():
    [driver] = documents("driver.yaml")
    labels = driver["spec"]["template"]["metadata"]["labels"]
    [container] = driver["spec"]["template"]["spec"]["containers"]
    own, page = documents("service.yaml")
    assert own["spec"]["clusterIP"] == "None"
    assert own["spec"]["selector"] == page["spec"]["selector"] == driver["spec"]["selector"]["matchLabels"] == labels
    assert container["ports"] == [{"name": page["spec"]["ports"][0]["targetPort"], "containerPort": 8093}]
    assert spark_options()["spark.driver.host"] == "driver.penstock.svc"
    assert [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness")] == [
        "/health/live",
        "/health/ready",
    ]


def commands() -> Iterator[list[str]]:
    """What containers run: the arguments of the entrypoint."""
    yield eval(dockerfile("CMD")[0])
    for service in compose()["services"].values():
        if service["image"] == "penstock":
            yield service["command"]
    yield next(pods())[1]["containers"][0]["args"]


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "docker-compose.yaml").read_text())


def settings() -> dict[str, str]:
    lines = (KUBERNETES / "settings.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_commands_are_ones_of_penstock():
    for words in commands():
        command: click.Command = main
        context = click.Context(main)
        while isinstance(command, click.Group):
            found = command.get_command(context, words[0])
            assert found is not None, words
            command, words = found, words[1:]
        command.make_context(command.name, list(words), resilient_parsing=False).close()


def test_variables_are_options_of_run_and_settings():
    run = main.get_command(click.Context(main), "run")
    assert run is not None
    help_text = run.get_help(click.Context(run))
    known = set(re.findall(r"PENSTOCK_[A-Z_]+\b", help_text)) | {EXECUTOR_STATE_DIR}
    known |= {f"PENSTOCK_{name.upper()}" for name in Settings.__dataclass_fields__}
    driver = [one["name"] for one in next(pods())[1]["containers"][0]["env"]]
    services = compose()["services"]
    given = {*variables_of_the_image(), *services["program"]["environment"], *settings(), *driver}
    assert {name for name in given if name.startswith("PENSTOCK_")} - known == set()


def spark_options() -> dict[str, str]:
    lines = (KUBERNETES / "spark.conf").read_text().splitlines()
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


def test_options_and_variables_of_spark_are_ones_that_its_classes_know():
    jars = Path(pyspark.__file__).parent / "jars"
    known = b""
    for name, classes in (("kubernetes", "/k8s/"), ("core", "/internal/config/")):
        [jar] = jars.glob(f"spark-{name}_*.jar")
        with zipfile.ZipFile(jar) as archive:
            known += b"".join(archive.read(one) for one in archive.namelist() if classes in one)
    parts = [name.rpartition(".") if name.endswith(".serviceAccountName") else (name,) for name in spark_options()]
    options = [part for one in parts for part in one if not part.startswith("spark.executorEnv.")]
    assert [part for part in options if part.encode() not in known] == []
    entrypoint = (DEPLOY / "entrypoint").read_text()
    variables = set(re.findall(r"\$\{?(SPARK_[A-Z_]+)|(SPARK_JAVA_OPT_)", entrypoint))
    assert [one for pair in variables for one in pair if one and one.encode() not in known] == []


# --- what the image runs ----------------------------------------------------------------------------------------------


@pytest.fixture
def machine() -> Iterator[Path]:
    """The folders of a container: ``app`` with the program, which is read-only, and two others. They are where another
    user finds them, which is not so of the tests' own folders.
    """
    with tempfile.TemporaryDirectory(dir=Path(tempfile.gettempdir()).parent) as folder:
        yield filled(Path(folder))


def filled(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    for name, mode in (("app", 0o755), ("data", 0o777), ("tmp", 0o777), ("bin", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    shutil.copy(KUBERNETES / "app.py", tmp_path / "app")
    produce([(None, "the quick fox"), (None, "the end")], "lines", value=str, log=tmp_path / "data" / "log")
    subprocess.run(["chmod", "-R", "a+rwX", str(tmp_path / "data")], check=True)
    return tmp_path


def contained(machine: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the entrypoint with the image's variables and these ones: as somebody who may read all and write little."""
    places = {"/data": str(machine / "data"), "/tmp": str(machine / "tmp")}
    image = {name: re.sub("^(/data|/tmp)", lambda found: places[found[0]], value) for name, value in
             variables_of_the_image().items()}  # fmt: skip
    path = f"{machine / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    outside = {name: value for name, value in os.environ.items() if name in ("PYTHONPATH", "JAVA_HOME")}
    may_read = "+dac_read_search"
    other = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", f"--inh-caps={may_read}",
             f"--ambient-caps={may_read}", f"--bounding-set=-all,{may_read}", "--no-new-privs"]  # fmt: skip
    return subprocess.run(
        [*other, str(DEPLOY / "entrypoint"), *arguments], cwd=machine / "app", text=True, capture_output=True,
        env=image | outside | {"PATH": path, "TMPDIR": places["/tmp"]} | more, timeout=300,
    )  # fmt: skip


needs_root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="becoming another user")


def files(machine: Path, *names: str) -> set[Path]:
    return {path for name in names for path in (machine / name).rglob("*")}


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_the_program_runs_as_another_user_who_writes_to_two_folders(machine: Path, engine: str):
    given = {"PENSTOCK_ENGINE": engine, "PENSTOCK_AVAILABLE_NOW": "true", "PENSTOCK_SLOTS": "1"}
    ran = contained(machine, *eval(dockerfile("CMD")[0]), **given)
    assert ran.returncode == 0, ran.stderr
    shown = contained(machine, "topics", "cat", "totals")
    assert sorted(shown.stdout.splitlines()) == ["end\t1", "fox\t1", "quick\t1", "the\t2"], shown.stderr
    assert files(machine, "app", "bin") == {machine / "app" / "app.py"}
    assert {file.owner() for file in (machine / "data" / "state").rglob("*")} == {"nobody"}


@needs_root
def test_who_runs_it_may_write_nowhere_else(machine: Path):
    """That the test above would notice it."""
    ran = contained(machine, "topics", "create", "more", "--log", str(machine / "app" / "log"))
    assert ran.returncode == 1
    assert "Permission denied" in ran.stderr


def test_an_executor_is_started_as_spark_asks_for_one(machine: Path):
    java = machine / "bin" / "java"
    java.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    java.chmod(0o755)
    given = {
        "SPARK_JAVA_OPT_0": "-Done=a b",
        "SPARK_JAVA_OPT_1": "-Dtwo=2",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver.penstock.svc:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "words-exec-3",
        "SPARK_CONF_DIR": "/opt/spark/conf",
    }
    path = f"{machine / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        [str(DEPLOY / "entrypoint"), "executor"], text=True, capture_output=True, env=given | {"PATH": path}
    )
    assert ran.stdout.splitlines() == [
        "-Done=a b",
        "-Dtwo=2",
        "-Xms1024m",
        "-Xmx1024m",
        "-cp",
        f"/opt/spark/conf:{Path(pyspark.__file__).parent}/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", "spark://CoarseGrainedScheduler@driver.penstock.svc:7078"),
        *("--executor-id", "3"),
        *("--cores", "2"),
        *("--app-id", "spark-1"),
        *("--hostname", "10.0.0.7"),
        *("--resourceProfileId", "0"),
        *("--podName", "words-exec-3"),
    ], ran.stderr
