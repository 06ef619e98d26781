"""Jobs that follow other jobs in a chaos run: each completion of a job pushes its step once, and nothing else does."""
import json

from ledger import Job


class Steps:
    def __init__(self, share, origin, pick):
        self.share, self.origin, self.pick, self.parents = share, origin, pick, {}

    def give(self, job, spec, ledger):
        """By chance gives a job a step: a request that may be repeated, with the results of the job in it."""
        if self.pick.random() >= self.share:
            return
        id = "step-" + job.id
        step = {"kind": "request", "method": "PUT", "id": "step-${id}", "url": f"{self.origin.url}/u/{id}/0",
                "json": {"bytes": "${bytes}"}, "reply_to": spec["reply_to"], "meta": {"id": id, "list": []}, "retries": 200}
        spec["then"] = step
        self.parents[id] = job
        # It is not accepted like a job that a producer has pushed, so that only this file judges it.
        ledger.add(Job(id, None, 0, 10, None, json.dumps({**step, "at": spec["at"]}), "request"))

    def wrong(self, ends):
        """The steps that are missing, and those that were done more often than their jobs were completed. ends: the final
        events by id. A step that is still active when its job is completed again is not done twice."""
        found = []
        for id, job in self.parents.items():
            if not job.accepted:
                continue
            completions = [event for _, event in ends.get(job.id, [])].count("completed")
            steps = [event for _, event in ends.get(id, [])]
            if not steps if completions else steps:
                found.append(f"{id}: {job.id} was completed {completions} times, and its step ended {steps}")
            elif len(steps) > completions or set(steps) - {"completed"}:
                found.append(f"{id}: {job.id} was completed {completions} times, and its step ended {steps}")
        return found
