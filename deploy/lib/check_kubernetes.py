"""Checks rendered manifests: against the schemas of the Kubernetes API and of KEDA, and by rules that no schema has."""

import ipaddress
import pathlib
import re
import sys

import kubernetes_validate
import yaml
from cloudcoil.models.keda import v1alpha1 as keda

wrong = []


def check(is_right, where, what):
    if not is_right:
        wrong.append(f"{where}: {what}")


def check_keda(where, document):
    """Compares the document with its copy from the model: the model drops keys that it does not know."""
    try:
        model = keda.ScaledObject.model_validate(document)
    except Exception as error:
        check(False, where, error)
        return
    back = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for key, value in document["spec"].items():
        check(back["spec"].get(key) == value, where, f"the schema has no {key}: {value}")


def check_pods(where, document):
    template = document["spec"]["template"]
    pod = template["spec"]
    labels = template["metadata"]["labels"]
    serves = document["kind"] == "Deployment"
    if serves:
        selector = document["spec"]["selector"]["matchLabels"]
        check(selector.items() <= labels.items(), where, "the selector does not choose its own pods")
    for volume in pod["volumes"]:
        keys = [item["key"] for item in volume.get("secret", {"items": []}).get("items", ["all"])]
        check("secret" not in volume or len(keys) == 1, where, f"gets more than one secret: {keys}")
    check(pod["securityContext"]["runAsNonRoot"] is True, where, "may run as root")
    check(pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", where, "has no seccomp profile")
    check(pod["automountServiceAccountToken"] is False, where, "has a token of the cluster that it does not need")
    for container in pod["containers"]:
        context = container["securityContext"]
        check(context["readOnlyRootFilesystem"] is True, where, "may write its root")
        check(context["capabilities"]["drop"] == ["ALL"], where, "has capabilities")
        check(context["allowPrivilegeEscalation"] is False, where, "may gain privileges")
        check("limits" in container["resources"], where, "has no limit of memory")
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("livenessProbe", "readinessProbe") if serves else ():
            check(container[probe]["httpGet"]["port"] in ports, where, f"its {probe} asks a port that it does not have")
        volumes = {volume["name"] for volume in pod["volumes"]}
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        check(volumes == mounts, where, f"volumes {volumes} and mounts {mounts} differ")
        environment = {entry["name"]: entry.get("value") for entry in container["env"]}
        grace = pod.get("terminationGracePeriodSeconds", 30)
        wait = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        check(grace > wait + int(environment.get("HAUL_GRACE", 10)) + 1, where, "is killed before it has ended")
        secrets = [name for name in environment if "PASSWORD" in name or name == "HAUL_REDIS"]
        check(not secrets, where, f"has secrets in its environment: {secrets}")


def refused_addresses():
    """An address of each network that the worker refuses by itself: Sources/HTTP/Connection/AddressPolicy.swift."""
    text = (pathlib.Path(__file__).parents[2] / "Sources/HTTP/Connection/AddressPolicy.swift").read_text()
    networks = [ipaddress.ip_network(range) for range in re.findall(r'(?:Entry|Network)\("([^"]+)"', text)]
    return [network[1 if network.num_addresses > 1 else 0] for network in networks if str(network) != "2000::/3"]


def check_network(where, document):
    for rule in document["spec"].get("ingress", []):
        check("from" in rule, where, "lets every pod in")
    for rule in document["spec"].get("egress", []):
        for peer in rule.get("to", []):
            if "ipBlock" in peer:
                block = ipaddress.ip_network(peer["ipBlock"]["cidr"])
                excepted = [ipaddress.ip_network(text) for text in peer["ipBlock"].get("except", [])]
                for address in refused_addresses():
                    is_let = address in block and not any(address in network for network in excepted)
                    check(not is_let, where, f"allows connections to {address}, which the worker refuses")


def main():
    documents = [document for document in yaml.safe_load_all(open(sys.argv[1])) if document]
    found = {}
    for document in documents:
        kind, name = document["kind"], document["metadata"]["name"]
        where = f"{kind} {name}"
        found[kind, name] = document
        check(document["metadata"].get("namespace") == "haul", where, "is in no namespace")
        if document["apiVersion"].startswith("keda.sh/"):
            check_keda(where, document)
        else:
            try:
                kubernetes_validate.validate(document, "1.32", strict=True)
            except kubernetes_validate.ValidationError as error:
                check(False, where, error.message)
        if kind in ("Deployment", "Job"):
            check_pods(where, document)
        if kind == "NetworkPolicy":
            check_network(where, document)
    # Each selector has to choose at least one pod.
    pods = [document["spec"]["template"]["metadata"]["labels"] for (kind, _), document in found.items() if kind in ("Deployment", "Job")]
    for (kind, name), document in found.items():
        selector = {
            "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
            "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
            "Service": lambda spec: spec["selector"],
        }.get(kind)
        if selector:
            chosen = selector(document["spec"])
            check(any(chosen.items() <= labels.items() for labels in pods), f"{kind} {name}", "chooses no pod")
        if kind == "ScaledObject":
            target = found.get(("Deployment", document["spec"]["scaleTargetRef"]["name"]))
            check(target is not None, name, "scales a Deployment that does not exist")
            check(target and "replicas" not in target["spec"], name, "and the Deployment both set the number of replicas")
            trigger = document["spec"]["triggers"][0]["metadata"]
            check("queued" in trigger["query"] and "running" in trigger["query"], name, "does not count both queued and running jobs")
            slots = next(e["value"] for e in target["spec"]["template"]["spec"]["containers"][0]["env"] if e["name"] == "HAUL_SLOTS")
            check(trigger["threshold"] == slots, name, f"expects {trigger['threshold']} jobs of a worker of {slots} slots")
    print(f"{sys.argv[1].rsplit('/', 1)[-1]}: {len(documents)} objects, {len(wrong)} wrong", *wrong, sep="\n")
    sys.exit(1 if wrong else 0)


main()
