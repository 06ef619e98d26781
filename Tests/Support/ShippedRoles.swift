package import Foundation

/// The roles of deploy/redis/users.acl, with passwords. The file itself has no valid passwords.
package enum ShippedRoles {
    package static let repository = URL(filePath: #filePath).appending(path: "../../..").standardized
    package static let path = repository.appending(path: "deploy/redis/users.acl").path

    package static func password(of role: some StringProtocol) -> String { "\(role.uppercased())-PASSWORD" }

    /// The text of the file. The password of the role `worker` is WORKER-PASSWORD.
    package static func text() throws -> String {
        try String(contentsOfFile: path, encoding: .utf8).replacing(/user (\w+) on #0{64}/) {
            "user \($0.1) on >\(password(of: $0.1))"
        }
    }
}
