"""Checks that alerts have tests and a runbook section, and that docs/operate/metrics.md has the metrics of rules and panels."""

import json
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Metrics that Prometheus makes itself.
OTHERS = {"up", "ALERTS"}


def main():
    groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    tests = yaml.safe_load((ROOT / "deploy/prometheus/alerts-test.yml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    fired = {case["alertname"] for case in cases if case["exp_alerts"]}
    silent = {case["alertname"] for case in cases if not case["exp_alerts"]}
    runbook = (ROOT / "docs/operate/runbook.md").read_text()
    sections = set(re.findall(r"^#+ (Haul\w+)$", runbook, re.MULTILINE))
    metrics = (ROOT / "docs/operate/metrics.md").read_text()
    dashboard = json.loads((ROOT / "deploy/grafana/haul.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]

    wrong = []
    for rule in rules:
        name = rule["alert"]
        if name not in fired:
            wrong.append(f"{name}: no test in which it fires")
        if name not in silent:
            wrong.append(f"{name}: no test in which it does not fire")
        if name not in sections:
            wrong.append(f"{name}: no section of its name in docs/operate/runbook.md")
        for part in ("summary", "description", "command"):
            if part not in rule["annotations"]:
                wrong.append(f"{name}: no {part}")
    names = {rule["alert"] for rule in rules}
    wrong += [f"{name}: a section in docs/operate/runbook.md, but no such alert" for name in sections - names]
    for text in [rule["expr"] for rule in rules] + queries:
        for name in re.findall(r"\b(?:haul|process)_[a-z_]+\b", text):
            if re.sub(r"_(bucket|sum|count)$", "", name) not in metrics and name not in OTHERS:
                wrong.append(f"docs/operate/metrics.md does not describe {name}")
    identifiers = [panel["id"] for panel in dashboard["panels"]]
    if len(set(identifiers)) != len(identifiers):
        wrong.append("two panels of the dashboard have the same id")
    print(*sorted(set(wrong)), sep="\n", end="\n" if wrong else "")
    print(f"{len(rules)} alerts, {len(cases)} tests of them, {len(queries)} queries of the dashboard: {len(set(wrong))} wrong")
    sys.exit(1 if wrong else 0)


main()
