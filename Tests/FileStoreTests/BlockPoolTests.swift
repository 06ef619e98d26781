import Testing

@testable import HaulFileStore

@Suite("The pool of blocks")
struct BlockPoolTests {
    @Test("a large block uses a huge page for a caller that fills it, and not instead of a small block")
    func hugePages() throws {
        let pool = BlockPool(large: 2, small: 0)
        let filled = try #require(pool.takeLarge())
        #expect(filled.isLarge && filled.isHugePage)
        let small = try #require(pool.take(large: false) {})
        #expect(small.isLarge && !small.isHugePage)
        pool.recycle(small)
        #expect(try #require(pool.take(large: true) {}).isHugePage)
        pool.recycle(small)
        pool.recycle(filled)
    }
}
