import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulFileStore

/// The lock that is held while a file gets its name on a file system without links and exclusive renames.
@Suite("Locks of names") struct NameLockTests {
    private let folder = TemporaryDirectory()

    private func directory() throws -> Directory {
        let descriptor = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        try #require(descriptor >= 0)
        return Directory(owning: descriptor)
    }

    @Test("a name has one holder at a time, even while the lock's file is removed again and again")
    func removal() async throws {
        let directory = try directory()
        let pool = BlockingPool(name: "lockers", limit: 6)
        let (holders, left, removals) = (Shared(0), Shared(5), Shared(0))
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<5 {
                group.addTask {
                    await pool.run {
                        for _ in 0..<200 {
                            let lock = try? NameLock(of: "a", in: directory)
                            #expect(lock != nil)
                            let others = holders.change { holders in
                                holders += 1
                                return holders - 1
                            }
                            #expect(others == 0)
                            usleep(20)
                            holders.change { $0 -= 1 }
                            withExtendedLifetime(lock) {}
                        }
                        left.change { $0 -= 1 }
                    }
                }
            }
            group.addTask {
                await pool.run {
                    while left.value > 0 {
                        NameLock.removeFile(in: directory)
                        if directory.status(of: NameLock.fileName) == nil { removals.change { $0 += 1 } }
                    }
                }
            }
        }
        #expect(removals.value > 0)
        NameLock.removeFile(in: directory)
        #expect(folder.names.isEmpty)
    }

    @Test("the lock's file is not removed while a name is locked, and another name is not held up")
    func held() throws {
        let directory = try directory()
        let lock = try NameLock(of: "a", in: directory)
        NameLock.removeFile(in: directory)
        #expect(folder.names == [NameLock.fileName])
        withExtendedLifetime((lock, try NameLock(of: "b", in: directory))) {}
    }

    @Test("a lock's file that cannot be opened is an error that names it") func unusable() throws {
        symlink("elsewhere", folder.file(NameLock.fileName))
        let directory = try directory()
        let error: TransferError?
        do throws(TransferError) {
            _ = try NameLock(of: "a", in: directory)
            error = nil
        } catch let thrown { error = thrown }
        #expect(error?.code == .pathForbidden && error?.message?.contains(".haul-lock") == true, "\(error as Any)")
    }
}
