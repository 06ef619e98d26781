import Glibc
import Testing

@testable import HaulFileStore

/// File systems that report odd numbers.
@Suite struct VolumeTests {
    private func volume(blocks: UInt, available: UInt, of unit: UInt) -> statvfs {
        var volume = statvfs()
        (volume.f_blocks, volume.f_bavail, volume.f_frsize) = (blocks, available, unit)
        return volume
    }

    @Test("a file system whose available space is negative, or too large for a number, has none or all of it")
    func space() {
        let plain = volume(blocks: 100, available: 10, of: 4096)
        #expect(plain.availableBytes == 40_960 && plain.totalBytes == 409_600)
        // An export that is filled 5 GiB beyond its quota, as NFS clients report it, and in blocks.
        let gibibyte: Int64 = 1 << 30
        let overfull = volume(blocks: 1 << 20, available: UInt(bitPattern: Int(-5 * gibibyte)) >> 20, of: 1 << 20)
        #expect(overfull.availableBytes == 0 && overfull.totalBytes == 1 << 40)
        #expect(volume(blocks: 1, available: UInt(bitPattern: -5), of: 4096).availableBytes == 0)
        #expect(volume(blocks: 1, available: UInt(bitPattern: -5), of: 1).availableBytes == 0)
        #expect(volume(blocks: .max, available: 0, of: 1).totalBytes == .max)
        #expect(volume(blocks: .max, available: 0, of: 4096).totalBytes == .max)
        let large = volume(blocks: 1 << 43, available: (1 << 43) - 1, of: 1 << 20)
        #expect(large.availableBytes == .max - (1 << 20) + 1 && large.totalBytes == .max)
    }
}
