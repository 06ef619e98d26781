import HaulHTTPServer
import Testing

@testable import HaulWeb

@Suite struct AccountsTests {
    private func basic(_ credentials: String) -> String { "Basic " + credentials }

    /// name:password in base64: of alice, of alice with a wrong password, and of carol, who has no account.
    private let alice = "YWxpY2U6b3BlbiBzZXNhbWU="
    private let wrong = "YWxpY2U6b3BlbiBzZXNhbQ=="
    private let nobody = "Y2Fyb2w6b3BlbiBzZXNhbWU="

    private func accounts() throws -> Accounts {
        let hash = PasswordHash(password: "open sesame", cost: 6).text
        return try Accounts(
            """
            # people
            alice operator \(hash)

            grafana\tviewer \(Accounts.hash(token: "secret-token"))
            """)
    }

    @Test("a password or a token identifies its user") func owners() async throws {
        let accounts = try accounts()
        let user = Visitor(name: "alice", role: .operator)
        #expect(await visit(accounts, basic(alice)) == .visitor(user, .checked))
        #expect(await visit(accounts, basic(alice)) == .visitor(user, .remembered))
        let token = Visitor(name: "grafana", role: .viewer)
        #expect(await visit(accounts, "bearer secret-token") == .visitor(token, .token))
        #expect(await visit(accounts, nil) == .none)
        for text in [basic("!"), basic(""), "Basic", "Bearer secret-toke", "Digest x", ""] {
            #expect(await visit(accounts, text) == .wrong(name: nil), "\(text)")
        }
        #expect(await visit(accounts, basic(wrong)) == .wrong(name: "alice"))
        #expect(await visit(accounts, basic(nobody)) == .wrong(name: "carol"))
    }

    private func visit(_ accounts: Accounts, _ authorization: String?) async -> Accounts.Outcome {
        await accounts.visitor(authorization, from: ClientAddress("10.0.0.1")!)
    }

    @Test("a password with a NUL at its end is another password")
    func trailingNUL() async throws {
        // alice:open sesame and a NUL.
        #expect(await visit(try accounts(), basic("YWxpY2U6b3BlbiBzZXNhbWUA")) == .wrong(name: "alice"))
        #expect(PasswordHash.problem(of: "twelve chars\0") != nil)
    }

    @Test("a new password has at least twelve characters, and its hash costs 128 MiB")
    func newPasswords() throws {
        #expect(
            PasswordHash.problem(of: "elevenchars")
                == "a password must have at least 12 characters, and this one has 11")
        #expect(PasswordHash.problem(of: "twelve chars") == nil)
        #expect(PasswordHash(password: "twelve chars").text.hasPrefix("scrypt$17$8$1$"))
    }

    @Test(
        "an invalid accounts file is refused with the line and the reason",
        arguments: [
            ("", "it lists no user: add one with haul web hash-password"),
            ("# nothing", "it lists no user: add one with haul web hash-password"),
            ("alice operator", "line 1 must have a name"),
            ("\nalice admin x", "line 2: \"admin\" is not a role"), ("alice operator plain", "line 1: the hash"),
            ("a:b viewer x", "line 1: a name has no colon"), ("alice viewer sha256:12", "line 1: sha256:"),
            ("alice operator scrypt$40$8$1$0011223344556677$00112233445566778899aabbccddeeff", "line 1: the hash"),
        ])
    func invalid(text: String, reason: String) {
        do {
            _ = try Accounts(text)
            Issue.record("\(text) was taken")
        } catch { #expect(error.description.hasPrefix(reason)) }
    }

    @Test("a password hash is read as it was written") func hashes() throws {
        let hash = PasswordHash(password: "pä ss", cost: 5)
        let read = try #require(PasswordHash(hash.text))
        #expect(read == hash && read.matches("pä ss") && !read.matches("pa ss"))
        #expect(PasswordHash(password: "pä ss", cost: 5) != hash)
    }

    /// The third test vector of RFC 7914, section 12.
    @Test("the hash of a password is scrypt") func scrypt() throws {
        let key =
            "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
            + "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
        let hash = try #require(PasswordHash("scrypt$14$8$1$536f6469756d43686c6f72696465$\(key)"))
        #expect(hash.matches("pleaseletmein") && !hash.matches("pleaseletmeout"))
    }
}
