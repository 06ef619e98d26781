import Foundation
import HaulTestSupport
import Testing

/// The product's functions on a real Redis server, under a clock that the simulation controls. At random, workers die,
/// freeze, wake as zombies and lose replies, Redis loses its last seconds, and producers and operators repeat
/// themselves. Nothing may be lost, done twice or undone, and each operation is applied once, to the run that it was
/// meant for.
///
/// The environment variable `HAUL_SIMULATION_STEPS` sets the number of steps, and `HAUL_SIMULATION_SEED` repeats a run.
@Suite struct SimulationTests {
    @Test("every job ends in one final state, whatever dies at whatever time", arguments: RedisServer.Kind.installed)
    func simulation(server: RedisServer.Kind) async throws {
        let environment = ProcessInfo.processInfo.environment
        let steps = environment["HAUL_SIMULATION_STEPS"].flatMap { Int($0) } ?? 2000
        let seed = environment["HAUL_SIMULATION_SEED"].flatMap { UInt64($0) } ?? .random(in: 0..<1_000_000)
        print("simulation: seed \(seed), \(steps) steps, \(server.rawValue)")
        var simulation = try await Simulation(seed: seed, on: server)
        try await simulation.run(steps: steps)
        try await simulation.drain()
        print("simulation: \(simulation.counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" })")
        #expect(simulation.ledger.violations.isEmpty, "seed \(seed): \(simulation.ledger.violations.prefix(10))")
    }
}
