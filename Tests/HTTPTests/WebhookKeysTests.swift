import Foundation
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulHTTP

@Suite("Signatures of webhooks") struct WebhookKeysTests {
    private static let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    @Test("a request is signed as the reference library signs it") func signed() throws {
        let keys = try WebhookKeys(text: Self.key + "\n")
        let fields = keys.fields(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330, body: Array(#"{"test": 2432232314}"#.utf8))
        #expect(
            fields.map { "\($0.name): \($0.value)" } == [
                "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp: 1614265330",
                "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ])
    }

    @Test("while a key is replaced, a request has a signature of each") func replaced() throws {
        let other = "whsec_" + Base64.encode([UInt8](repeating: 7, count: 32))
        let keys = try WebhookKeys(text: "\(Self.key)\r\n\(other)\n")
        let signature = try #require(keys.fields(id: "a", timestamp: 1, body: []).last?.value)
        let each = try [Self.key, other].compactMap {
            try WebhookKeys(text: $0).fields(id: "a", timestamp: 1, body: []).last
        }
        #expect(signature == each.map(\.value).joined(separator: " "))
    }

    @Test(
        "a text that is not a valid key is refused",
        arguments: ["", "\n", "whsec_", "whsec_MfKQ", "whsec_!!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw=", "a b c d e"])
    func refused(_ text: String) { #expect(throws: WebhookKeys.Invalid.self) { try WebhookKeys(text: text) } }

    @Test("a file that cannot be used is named with what it must have") func file() throws {
        let folder = TemporaryDirectory()
        let missing = #expect(throws: Failure.self) { try WebhookKeys(file: folder.file("none")) }
        #expect(missing?.message.contains("none, cannot be read: No such file") == true)
        for (text, reason) in [
            ("\(Self.key)\n# the old one", "must have keys only, and line 2 is not base 64"),
            ("\nwhsec_AAAA", "must have keys only, and line 2 has 3 bytes"), ("", "must have one to four keys, not 0"),
        ] {
            try Data(text.utf8).write(to: URL(filePath: folder.file("bad")))
            let bad = #expect(throws: Failure.self) { try WebhookKeys(file: folder.file("bad")) }
            #expect(bad?.message.contains("bad, \(reason). A key is whsec_ and") == true, "\(bad?.message ?? "")")
        }
        let directory = #expect(throws: Failure.self) { try WebhookKeys(file: folder.path) }
        #expect(directory?.message.contains("cannot be read: Is a directory") == true)
    }
}
