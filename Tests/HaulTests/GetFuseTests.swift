import Foundation
import HaulContract
import HaulTestSupport
import Testing

/// `haul get` on a file system in user space, without links and exclusive renames.
@Suite struct GetFuseTests {
    private static let bytes = FileBytes(seed: 95, count: 300_000)

    @Test(
        "several commands at once give each file a name of its own, and leave nothing beside the files",
        .enabled("needs exfat-fuse and loop devices") { await LinklessMount.isPossible() })
    func several() async throws {
        let (root, home) = (TemporaryDirectory(), TemporaryDirectory())
        let mount = try await LinklessMount(at: root)
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let commands = try (1...4).map { number in
            try mount.start(
                "haul", ["get", "-d", root.path, "--if-exists", "rename", origin.url("/a?\(number)"), "-o", "a.bin"],
                environment: ["XDG_STATE_HOME": home.path, "HOME": home.path, "no_proxy": ""])
        }
        for command in commands {
            #expect(try await command.wait() == 0, "\(command.standardOutput) \(command.standardError)")
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: mount.file(""))
        #expect(names.count == 4 && names.allSatisfy { $0.hasPrefix("a") }, "\(names)")
        for name in names {
            #expect(FileManager.default.contents(atPath: mount.file(name)).map { Array($0) } == Self.bytes.all)
        }
    }
}
