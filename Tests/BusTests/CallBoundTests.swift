import Foundation
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// Redis serves one call at a time, and a producer needs nothing but LPUSH. So whatever is pushed, and whatever state
/// it meets, no call may take longer than `CallMeter.limit`, nor more than in proportion to the length of what was pushed.
@Suite("No call of Redis is long or grows memory, whatever producers push", .serialized)
struct CallBoundTests {
    /// Elements of about `length` bytes. Each is almost valid, in one field at its full length, or is what costs the
    /// readers most.
    private static func elements(_ length: Int) -> [(name: String, element: String)] {
        var elements: [(String, String)] = []
        func add(_ name: String, _ members: String) { elements.append((name, "{\"id\":\"x\",\(members)}")) }
        func fill(_ unit: String, _ size: Int) -> String {
            String(repeating: unit, count: max(1, size / unit.utf8.count))
        }
        func list(_ unit: String, _ size: Int) -> String {
            "[" + Array(repeating: unit, count: max(1, size / (unit.utf8.count + 1))).joined(separator: ",") + "]"
        }
        func object(_ size: Int, name: (Int) -> String, value: String = "1") -> String {
            var (members, used) = ([String](), 0)
            while used < size {
                members.append("\"\(name(members.count))\":\(value)")
                used += members.last!.utf8.count + 1
            }
            return "{" + members.joined(separator: ",") + "}"
        }
        let url = #""url":"http://h/""#
        let (long, half) = (min(length, 8150), length / 2)
        // One repeated piece in each place of a URL, with an end that makes it invalid or not.
        for unit in ["a", ".", ":", "@", "[", "]", "%", "é", "0", "#", "?", "/", "../", "a@", ":.", "0:", "::", "%25"] {
            for (start, end) in [
                ("http://", ""), ("http://", " "), ("http://", "@h/"), ("http://[", "]/"), ("http://[:", ":]/"),
                ("http://[%", "]/"), ("http://h/", " "), ("http://h:", "/"), ("", ""), ("a://", ""),
            ] {
                let text = start + fill(unit, long) + end
                add("url \(start)\(unit)…\(end)", "\"url\":\"\(text)\"")
            }
            add("urls \(unit)", "\"urls\":" + list("\"http://\(fill(unit, half - 20)) \"", length))
        }
        for field in JobField.all where !["url", "urls", "id", "kind"].contains(field.name) {
            let kind = field.kinds.contains(.download) ? "download" : field.kinds.map(\.rawValue).min()!
            let rest = "\"kind\":\"\(kind)\",\(url),\"\(field.name)\":"
            for unit in [
                "a", "a/", "/.", "./", "a/../", "A", "=", "0", " ", "x:", "中", "😀", "中aя😀", "\\\"", "\\u0001", "\\\\",
            ] {
                // Most texts of a field may be shorter than the element. The order is the same for each length, because
                // elements of two lengths are compared by their places.
                for size in [length, min(length, 4090), min(length, 250)] {
                    add("\(field.name) \(unit) \(size)", rest + "\"\(fill(unit, size))\"")
                }
            }
            let bare = min(length, 6000)
            for item in ["0", "\"\"", "\"abcdef\"", "[]", "{}", "-0.5e10", "{\"file\":\"a/b\"}", "\"100-200\""] {
                add("\(field.name) [\(item)]", rest + list(item, bare))
            }
            add("\(field.name) nested", rest + list(fill("[", 60) + fill("]", 60), bare))
            add("\(field.name) names", rest + object(length, name: { "x\($0)" }, value: "\"y\""))
            add("\(field.name) 250 names", rest + object(min(length, 2000), name: { "x\($0)" }, value: "\"y\""))
            add("\(field.name) escaped names", rest + object(length, name: { "\\u006d\($0)" }))
            add("\(field.name) names of meta", rest + list("{\"meta\":0}", length) + ",\"meta\":1")
        }
        add("files", "\"kind\":\"upload\",\(url),\"files\":" + list("{\"file\":\"\(fill("a/", 3900))a\"}", length))
        add(
            "types",
            "\"kind\":\"upload\",\(url),\"files\":" + list("{\"file\":\"a\",\"type\":\"a/a\(fill(" ", 250))\"}", length)
        )
        add("unknown fields", url + "," + object(length, name: { "f\($0)" }).dropFirst().dropLast())
        add(
            "many escaped names before meta",
            "\"t\":" + object(length, name: { "m\\u0065tb\($0)" }) + ",\"m\\u0065ta\":1,\(url)")
        add("a kind", "\"kind\":\"\(fill("a", length))\"")
        add("relative", "\"url\":\"\(fill("a/", long - 20))b\"")
        add("relative dots", "\"url\":\"\(fill("a/../", long - 20))b\"")
        elements += [
            ("blanks", "{" + fill(" \t\r\n", min(length, 6000)) + "\(url)}"), ("quotes", "{" + fill("\"", length)),
            ("backslashes", "{\"" + fill("\\", length)), ("open", fill("[", length)),
            ("objects", fill("{\"a\":", length)),
            ("controls", "{\"a\":\"" + fill("\u{1}", length) + "\"}"), ("no JSON", fill("é", length)),
        ]
        return elements
    }

    @Test(
        "an element of any shape costs at most 2 ms, in proportion to its length", arguments: RedisServer.Kind.installed
    )
    func elements(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        let meter = try await CallMeter(f)
        let defaults = Command(
            "HSET", f.queue.keys.defaults, "base", "\"http://h/a/b/c\"", "meta", list(1300), "headers", "{\"a\":\"b\"}")
        func cost(_ element: String, repeats: Int) async throws -> Double {
            var least = Double.infinity
            for _ in 0..<repeats {
                try await f.redis.send(Command("FLUSHALL"))
                _ = try await f.queue.register(f.worker, fields: [], known: [])
                try await f.redis.send(defaults)
                try await f.redis.send(Command("LPUSH", f.queue.keys.jobs, String(element.utf8.prefix(16384))!))
                least = min(least, try await meter.cost { _ = try await f.queue.claim(f.worker, token: Token.make()) })
            }
            return least
        }
        let (whole, half) = (Self.elements(15_500), Self.elements(7750))
        var worst = (cost: 0.0, name: "")
        for (index, (name, element)) in whole.enumerated() where CallMeter.isExact || index.isMultiple(of: 17) {
            var found = try await cost(element, repeats: 1)
            // Once is enough for what costs little.
            if found > meter.limit / 3 {
                found = min(found, try await cost(element, repeats: 8))
                let before = try await cost(half[index].element, repeats: 8)
                #expect(found <= meter.limit, "\(name): \(found) µs of \(meter.limit)")
                #expect(
                    found <= 2.5 * before + (CallMeter.isExact ? 200 : meter.limit / 4),
                    "\(name): \(found) µs, and \(before) µs for half of it")
            }
            if found > worst.cost { worst = (found, name) }
        }
        print(
            "\(server.rawValue): of \(whole.count) elements the worst is \(worst.name): \(Int(worst.cost)) µs of \(Int(meter.limit))"
        )
    }

    private func list(_ count: Int) -> String { "[" + Array(repeating: "0", count: count).joined(separator: ",") + "]" }
}
