/// The error that `body` throws. nil if it throws none.
package func thrown<Value, Failure: Error>(_ body: () async throws(Failure) -> Value) async -> Failure? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error
    }
}
