"""The event stream of a chaos run (docs/guides/durable-events.md). Through kills and failovers it has each event once, the
events of a job in their order, and as the last one of an ended job its end."""
import json

from resp import pairs

Q = "haul:{default}:"
ENDS = ("completed", "failed", "cancelled")


class Stream:
    RULES = "events missing in the stream", "events of the stream out of order"
    # More than a run has, so that nothing is trimmed.
    setting = "HSET", Q + "settings", "event_stream", 1000000

    def __init__(self):
        self.count = 0

    def judge(self, run, records):
        missing, misplaced, last, ends = [], [], {}, {}
        for _, fields in run.redis.call("XRANGE", Q + "log", "-", "+"):
            event = json.loads(pairs(fields)["data"])
            self.count += 1
            if "seq" not in event:
                continue
            # The events of a batch have no job.
            id, place = event.get("id") or "batch " + event["batch"], (event["epoch"], event["seq"])
            before, name = last.get(id, ((0, 0), None))
            if place <= before:
                misplaced.append(f"{id}: {event['event']} at {place} follows {name} at {before}")
            # A repeated push changes no state.
            last[id] = place, name if event["event"] == "duplicate" else event["event"]
            if event["event"] in ENDS:
                ends[id, *place] = event["event"]
        for place, text in run.ledger.texts.items():
            event = json.loads(text)["event"]
            if ends.get(place) != event:
                missing.append(f"{place}: the reply list got {event}, and the stream {ends.get(place)}")
        for id, fields in records.items():
            state, event = fields.get("state"), last.get(id, (None, None))[1]
            if state in ENDS and event != state:
                missing.append(f"{id}: it is {state}, and its last event in the stream is {event}")
        return dict(zip(self.RULES, (missing, misplaced)))

    def figures(self):
        return {"events in the stream": self.count}
