import Foundation
import Testing

/// Workers that die, freeze, wake as zombies and lose replies, a Redis that loses its last seconds, and producers and
/// operators that repeat themselves, at random and in a time of their own, on the product's scripts and a real Redis.
/// Nothing may be lost, done twice, or undone, and a request is applied once, to the run that it was meant for.
///
/// `HAUL_SIMULATION_STEPS` and `HAUL_SIMULATION_SEED` make it longer, and repeat a run.
@Suite struct SimulationTests {
    @Test("whatever dies, and whenever, every job ends in one final state") func simulation() async throws {
        let environment = ProcessInfo.processInfo.environment
        let steps = environment["HAUL_SIMULATION_STEPS"].flatMap { Int($0) } ?? 2000
        let seed = environment["HAUL_SIMULATION_SEED"].flatMap { UInt64($0) } ?? .random(in: 0..<1_000_000)
        print("simulation: seed \(seed), \(steps) steps")
        var simulation = try await Simulation(seed: seed)
        try await simulation.run(steps: steps)
        try await simulation.drain()
        print("simulation: \(simulation.counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" })")
        #expect(simulation.ledger.wrong.isEmpty, "seed \(seed): \(simulation.ledger.wrong.prefix(10))")
    }
}
