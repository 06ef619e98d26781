import CHaulLinux
import Glibc
import HaulHTTP

/// How a file system gives a file a name without replacing another file. The best method is first.
package enum NamingMethod: Int, Sendable, Comparable {
    /// A link fails if the name exists, and leaves the hidden name as the proof.
    case link
    /// RENAME_NOREPLACE also fails if the name exists. A placement record is the proof.
    case exclusiveRename
    /// A check, then a rename. A lock keeps two workers from doing this at the same time.
    case lockedRename

    package static func < (one: NamingMethod, other: NamingMethod) -> Bool { one.rawValue < other.rawValue }

    /// The method to try if the file system does not support this one.
    var next: NamingMethod { NamingMethod(rawValue: rawValue + 1) ?? .lockedRename }

    /// Whether an errno means that the file system does not support this method at all.
    func isUnsupported(_ code: Int32) -> Bool {
        switch self {
        case .link: [EPERM, EOPNOTSUPP, ENOSYS].contains(code)
        case .exclusiveRename: [EINVAL, ENOSYS, EOPNOTSUPP].contains(code)
        case .lockedRename: false
        }
    }

    /// 0, or the errno of what failed: EEXIST if the name exists. Blocks.
    func move(_ from: String, to name: String, in directory: Directory) -> Int32 {
        switch self {
        case .link: directory.link(from, to: name)
        case .exclusiveRename: clinux_rename_exclusive(directory.descriptor, from, name)
        case .lockedRename: directory.renameIfAbsent(from, to: name)
        }
    }

    /// The best method that the file system of a directory supports; nil if it cannot be determined now. Blocks.
    ///
    /// - Parameter isSingleUser: Whether the test files always have the same names, so that the next run removes those
    ///   of a killed one.
    static func probe(_ directory: Directory, isSingleUser: Bool = false) -> NamingMethod? {
        let one = isSingleUser ? Directory.probePrefix + "1" : Directory.probeName()
        let other = isSingleUser ? Directory.probePrefix + "2" : Directory.probeName()
        if isSingleUser { for name in [one, other] { directory.unlink(name) } }
        let file = openat(directory.descriptor, one, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { return nil }
        close(file)
        defer { for name in [one, other] { directory.unlink(name) } }
        for naming in [NamingMethod.link, .exclusiveRename] {
            let code = naming.move(one, to: other, in: directory)
            // Another run that tests at the same time may have been faster.
            if code == 0 || isSingleUser && code == EEXIST { return naming }
            guard naming.isUnsupported(code) else { return nil }
        }
        return .lockedRename
    }
}
